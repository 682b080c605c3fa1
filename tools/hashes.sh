#!/bin/sh
# Writes the hashes of all files of each pinned version into the requirements files that are named.
# A version is changed by editing its pin; this then takes the hashes anew.
set -eu
compile=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for file in "$@"; do
    grep '^#' "$file" > "$work/head" || true
    sed -n 's/^\([A-Za-z0-9._-]*==[^ ;\\]*\).*/\1/p' "$file" > "$work/pins.in"
    "$compile" --quiet --generate-hashes --no-header --no-annotate --allow-unsafe --strip-extras \
        --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
        --output-file "$work/pins.txt" "$work/pins.in"
    cat "$work/head" "$work/pins.txt" > "$file.new"
    mv "$file.new" "$file"
    rm "$work/pins.txt"
done

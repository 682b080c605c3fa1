#!/bin/sh
# Prints the Python to build with; one clear sentence and exit 1 when the machine lacks something.
# PYTHON names another interpreter, JAVA_HOME or PATH another Java.

if [ -n "${PYTHON:-}" ]; then
    set -- "$PYTHON"
else
    set -- python3.11 python3.12 python3.13 python3
fi
for candidate in "$@"; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "${python:-}" ] && [ -n "${PYTHON:-}" ]; then
    echo "tidelog needs Python 3.11 or later and PYTHON=$PYTHON is none: point it at one, or leave it out." >&2
    exit 1
fi
if [ -z "${python:-}" ]; then
    echo "tidelog needs Python 3.11 or later: install it, or point PYTHON at one (make PYTHON=...)." >&2
    exit 1
fi
if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
    echo "$python cannot make virtual environments: install its venv package (Debian: python3-venv)." >&2
    exit 1
fi

java=${JAVA_HOME:+$JAVA_HOME/bin/}java
# 'openjdk version "17.0.15" ...' gives 17; '1.8.0_392' gives 8.
major=$("$java" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]\{1,\}\).*/\2/p' | head -n 1)
if [ -z "$major" ] && [ -n "${JAVA_HOME:-}" ]; then
    echo "tidelog needs Java 17 or later for Spark and $java is none: point JAVA_HOME at one, or unset it." >&2
    exit 1
fi
if [ -z "$major" ]; then
    echo "tidelog needs Java 17 or later for Spark and found none: install one (Debian: openjdk-17-jre-headless), or point JAVA_HOME at it." >&2
    exit 1
fi
if [ "$major" -lt 17 ]; then
    echo "tidelog needs Java 17 or later for Spark and $java is version $major: install a newer one, or point JAVA_HOME at it." >&2
    exit 1
fi
echo "$python"

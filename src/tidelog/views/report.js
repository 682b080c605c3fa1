"use strict";
// Draws what holds when, from the data of the page. Text is only ever set as text.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const make = (tag, text, kind) => {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    if (kind) node.className = kind;
    return node;
  };

  // Light and dark: the system's choice until the button says otherwise.
  const root = document.documentElement;
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  $("theme").addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; recolour(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => recolour());
  let recolour = () => {};

  // Witnesses: replay their facts tick by tick.
  for (const article of document.querySelectorAll("article.query")) {
    const replay = article.querySelector(".replay"), svg = article.querySelector("svg.timeline");
    if (!replay || !svg) continue;
    const dots = [...svg.querySelectorAll(".given")], times = dots.map((dot) => +dot.dataset.time);
    const slider = replay.querySelector("input"), said = replay.querySelector("output");
    const wait = svg.dataset.delay === "" ? Infinity : +svg.dataset.delay;
    slider.min = Math.min(0, ...times) - 1;
    slider.max = Math.max(0, ...times, wait === Infinity ? 0 : wait);
    slider.value = slider.max;
    const show = () => {
      const tin = +slider.value;
      dots.forEach((dot, i) => dot.classList.toggle("later", times[i] > tin));
      const sign = tin > 0 ? `+${tin}` : `${tin}`;
      said.textContent = tin >= wait ? `${sign}: the answer is final` : `${sign}: not final yet`;
    };
    slider.addEventListener("input", show);
    replay.hidden = false;
    show();
  }

  if (!data.lanes) return;

  // Lanes
  const canvas = $("canvas"), pen = canvas.getContext("2d"), box = $("scroll"), tin = $("tin"), filter = $("filter");
  const ROW = 20, HEAD = 26, LEFT = 210;
  const { low, high, predicates } = data;
  const lanes = data.lanes.map(([predicate, label, runs, numbers]) => ({ predicate, label, runs, numbers, name: predicates[predicate].name }));
  // Inputs are many and known: what follows from them is shown first.
  const folded = new Set(), inputs = [...new Set(lanes.map((lane) => lane.predicate))].filter((p) => predicates[p].input && !predicates[p].output);
  if (lanes.some((lane) => !inputs.includes(lane.predicate))) inputs.forEach((p) => folded.add(p));
  // So are outputs and what they depend on before hundreds of lanes of something else.
  const MANY = 40, sizes = new Map();
  for (const { predicate } of lanes) sizes.set(predicate, (sizes.get(predicate) || 0) + 1);
  sizes.forEach((n, p) => { if (n > MANY && !predicates[p].output) folded.add(p); });
  // The least and the greatest number of each predicate: its lines have one scale.
  const scale = new Map();
  for (const { predicate, numbers } of lanes) {
    for (let i = 1; i < (numbers || []).length; i += 2) {
      const [a, b] = scale.get(predicate) || [Infinity, -Infinity];
      scale.set(predicate, [Math.min(a, numbers[i]), Math.max(b, numbers[i])]);
    }
  }
  let rows = [], first = low, last = high + 1, cursor = null, colours = {}, drawn = false, width = 0, height = 0;
  const byPlace = new Map();
  data.facts.forEach(([, lane, time], i) => {
    if (lane < 0) return;
    const key = `${lane} ${time}`;
    if (byPlace.has(key)) byPlace.get(key).push(i); else byPlace.set(key, [i]);
  });

  const when = (tick) => {
    if (!data.ticks) return `${tick}`;
    const [length, origin] = data.ticks, date = new Date((tick * length + origin) / 1000);
    return isNaN(date) ? `tick ${tick}` : date.toISOString().replace(".000Z", "Z");
  };
  // Up to where a predicate is final, and from where it is kept, when everything up to a tick has arrived.
  const finalTo = (p, now) => p.phi === null ? low - 1 : now - Math.max(p.phi, 0);
  const keptFrom = (p, now) => p.phi === null || p.keep === null ? low : now - p.phi - p.keep;

  function refilter() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    rows = [];
    let open = -1;
    lanes.forEach((lane, i) => {
      const text = `${lane.name}(${lane.label})`.toLowerCase();
      if (!words.every((word) => text.includes(word))) return;
      if (lane.predicate !== open) { open = lane.predicate; rows.push({ predicate: open, lanes: 0 }); }
      rows.findLast((row) => row.lane === undefined).lanes += 1;
      if (words.length || !folded.has(open)) rows.push({ lane: i, predicate: lane.predicate });
    });
    resize();
  }

  function resize() {
    width = box.clientWidth; height = box.clientHeight;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
    $("spacer").style.height = `${Math.max(0, rows.length * ROW + HEAD + 8 - height)}px`;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw();
  }

  recolour = () => {
    const style = getComputedStyle(root);
    for (const name of ["ink", "paper", "line", "soft", "dim", "final", "open", "input", "derived", "gone", "kept", "wait", "mark"])
      colours[name] = style.getPropertyValue(`--${name}`).trim();
    draw();
  };

  const toX = (tick) => LEFT + (tick - first) / (last - first) * (width - LEFT);
  const toTick = (x) => Math.floor(first + (x - LEFT) / (width - LEFT) * (last - first));

  function draw() {
    if (drawn) return;
    drawn = true;
    requestAnimationFrame(() => { drawn = false; paint(); });
  }

  function band(from, to, y, colour) { // ticks from..to, both included, as far as they are in view
    const a = Math.max(from, first), b = Math.min(to + 1, last);
    if (b <= a) return;
    pen.fillStyle = colour;
    pen.fillRect(toX(a), y, toX(b) - toX(a), ROW);
  }

  function paint() {
    const now = +tin.value, top = box.scrollTop;
    pen.fillStyle = colours.paper; pen.fillRect(0, 0, width, height);
    pen.font = "12px ui-monospace, monospace"; pen.textBaseline = "middle";
    const from = Math.max(0, Math.floor(top / ROW) - 1), to = Math.min(rows.length, Math.ceil((top + height) / ROW));
    for (let i = from; i < to; i++) {
      const row = rows[i], y = HEAD + i * ROW - top, p = predicates[row.predicate];
      if (row.lane === undefined) {
        pen.fillStyle = colours.soft; pen.fillRect(0, y, width, ROW);
        pen.fillStyle = colours.ink; pen.font = "600 12px ui-monospace, monospace";
        const rest = p.phi === null ? "may always change" : p.phi > 0 ? `phi ${p.phi}` : "";
        const fold = folded.has(row.predicate) && !filter.value.trim() ? "▸" : "▾";
        const count = row.lanes === 1 ? "1 lane" : `${row.lanes} lanes`;
        pen.fillText(`${fold} ${clip(p.name, 24)}  ${p.input ? "input" : p.output ? "output" : ""}  ${count}  ${rest}`, 8, y + ROW / 2);
        pen.font = "12px ui-monospace, monospace";
        continue;
      }
      const final = finalTo(p, now), kept = keptFrom(p, now), lane = lanes[row.lane];
      band(low, Math.min(kept - 1, now), y, colours.gone);
      band(Math.max(kept, low), Math.min(final, now), y, colours.kept);
      band(Math.max(final + 1, low), now, y, colours.wait);
      for (const k of p.pinned) if (k <= now) band(k, k, y, colours.kept);
      runs(lane.runs, y, p, now, final);
      if (lane.numbers) line(lane, y, now);
      pen.fillStyle = colours.paper; pen.fillRect(0, y, LEFT - 4, ROW);
      pen.fillStyle = colours.ink; pen.fillText(clip(lane.label || lane.name, 26), 18, y + ROW / 2);
    }
    axis(now);
    if (cursor) {
      const y = HEAD + cursor.row * ROW - top, x = Math.max(toX(cursor.tick), LEFT), w = Math.max(toX(cursor.tick + 1) - x, 4);
      pen.strokeStyle = colours.mark; pen.lineWidth = 2; pen.strokeRect(x - 1, y + 1, w + 2, ROW - 2); pen.lineWidth = 1;
    }
    if (!rows.length) { pen.fillStyle = colours.dim; pen.fillText("nothing fits the filter", LEFT, HEAD + ROW); }
  }

  function runs(list, y, p, now, final) {
    // Pairs of a first tick and a number of ticks, in order: start with the first that reaches into view.
    let a = 0, b = list.length / 2;
    while (a < b) { const m = (a + b) >> 1; if (list[2 * m] + list[2 * m + 1] > first) b = m; else a = m + 1; }
    const parts = [[-Infinity, Math.min(final, now), p.input && !p.output ? colours.input : p.output ? colours.final : colours.derived],
      [Math.min(final, now), now, colours.open], [now, Infinity, null]];
    let pixel = -1;
    for (let i = a; i < list.length / 2; i++) {
      const start = list[2 * i], end = start + list[2 * i + 1];
      if (start >= last) break;
      const right = Math.floor(toX(Math.min(end, last)));
      if (right <= pixel) continue; // many in one pixel: one is enough
      pixel = right;
      for (const [after, upto, colour] of parts) {
        const s = Math.max(start, after + 1, first), e = Math.min(end, upto + 1, last);
        if (e <= s) continue;
        const x = toX(s), w = Math.max(toX(e) - x - (toX(s + 1) - x > 6 ? 1 : 0), 1);
        if (colour) { pen.fillStyle = colour; pen.fillRect(x, y + 4, w, ROW - 8); }
        else { pen.fillStyle = colours.line; pen.globalAlpha = .6; pen.fillRect(x, y + 7, w, ROW - 14); pen.globalAlpha = 1; }
      }
    }
  }

  // Numbers as a line, over a band that says when there are any.
  function line({ numbers, predicate }, y, now) {
    const [least, most] = scale.get(predicate), high = ROW - 6;
    pen.strokeStyle = colours.ink; pen.beginPath();
    let open = false;
    for (let i = 0; i < numbers.length; i += 2) {
      const t = numbers[i];
      if (t > now || t > last) break;
      if (i + 2 < numbers.length && numbers[i + 2] < first) continue;
      const x = toX(t + .5), at = y + ROW - 3 - (most === least ? .5 : (numbers[i + 1] - least) / (most - least)) * high;
      if (open) pen.lineTo(x, at); else pen.moveTo(x, at);
      open = true;
    }
    pen.stroke();
  }

  const clip = (text, n) => text.length > n ? `${text.slice(0, n - 1)}…` : text;

  function axis(now) {
    pen.fillStyle = colours.paper; pen.fillRect(0, 0, width, HEAD);
    pen.fillStyle = colours.dim; pen.strokeStyle = colours.line;
    for (const [t, label] of marks()) {
      const x = toX(t);
      pen.fillText(label, x + 3, HEAD / 2);
      pen.beginPath(); pen.moveTo(x + .5, HEAD - 6); pen.lineTo(x + .5, HEAD); pen.stroke();
    }
    const x = toX(now + 1);
    if (x >= LEFT && x <= width + 1) {
      pen.strokeStyle = colours.mark; pen.beginPath(); pen.moveTo(x, 0); pen.lineTo(x, height); pen.stroke();
    }
    pen.fillStyle = colours.paper; pen.fillRect(0, 0, LEFT - 4, HEAD);
    pen.fillStyle = colours.dim;
    const count = rows.filter((row) => row.lane !== undefined).length;
    pen.fillText(count === 1 ? "1 lane" : `${count} lanes`, 8, HEAD / 2);
  }

  // Where the axis has a mark, and what stands there: whole numbers, or whole minutes, hours and days.
  const SECONDS = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200, 86400, 172800, 604800, 2592000, 31536000];
  function marks() {
    const raw = (last - first) / Math.max((width - LEFT) / (data.ticks ? 110 : 70), 1);
    const found = [], size = data.ticks ? SECONDS.find((s) => s * 1e6 >= raw * data.ticks[0]) : null;
    if (!size) {
      const power = 10 ** Math.floor(Math.log10(Math.max(raw, 1)));
      const step = Math.max(1, [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw));
      for (let t = Math.ceil(first / step) * step; t < last; t += step) found.push([t, when(t)]);
      return found;
    }
    const [length, origin] = data.ticks, step = Math.max(size * 1e6, length);
    let day = "";
    for (let at = Math.ceil((first * length + origin) / step) * step; (at - origin) / length < last; at += step) {
      const date = new Date(at / 1000);
      if (isNaN(date)) break;
      const text = date.toISOString(), time = text.slice(11, size < 60 ? 19 : 16);
      found.push([(at - origin) / length, text.slice(0, 10) === day ? time : size >= 86400 ? text.slice(0, 10) : `${text.slice(5, 10)} ${time}`]);
      day = size >= 86400 ? "" : text.slice(0, 10);
    }
    return found;
  }

  // tin
  function moved() {
    const now = +tin.value, outputs = predicates.filter((p) => p.output);
    const upTo = new Map();
    for (const p of outputs) {
      const state = p.phi === null ? "may always change" : `final up to ${when(Math.min(finalTo(p, now), now))}`;
      upTo.set(state, [...(upTo.get(state) || []), p.name]);
    }
    const parts = [...upTo].map(([state, names]) => `${names.join(", ")} ${state}`);
    $("status").textContent = `everything up to ${when(now)} has arrived; ${parts.join("; ")}`;
    $("number").value = now;
    $("when").textContent = when(now);
    const list = $("pending");
    list.replaceChildren();
    if (data.waiting) {
      const mine = data.waiting.filter(([at]) => at === now);
      list.append(make("h3", mine.length ? "Pending" : "Nothing is pending"));
      const ul = make("ul");
      for (const [, answer, waits, unless = []] of mine) {
        const li = make("li");
        const facts = (some) => some.forEach((fact, i) => li.append(make("span", i ? " and " : ""), make("code", fact)));
        li.append(make("code", answer), make("span", waits.length || !unless.length ? " waits for " : " holds"));
        facts(waits);
        unless.forEach((way, i) => {
          li.append(make("span", i ? " or " : " unless "));
          facts(way);
        });
        ul.append(li);
      }
      list.append(ul);
    }
    draw();
  }

  // Proofs
  const holdsAt = (lane, tick) => {
    const list = lanes[lane].runs;
    let a = 0, b = list.length / 2;
    while (a < b) { const m = (a + b) >> 1; if (list[2 * m] + list[2 * m + 1] > tick) b = m; else a = m + 1; }
    return a < list.length / 2 && list[2 * a] <= tick;
  };

  function explain(lane, tick) {
    const panel = $("proof"), found = byPlace.get(`${lane} ${tick}`) || [], p = predicates[lanes[lane].predicate];
    panel.replaceChildren();
    const name = lanes[lane].label ? `${lanes[lane].name}(${lanes[lane].label})` : lanes[lane].name;
    if (!holdsAt(lane, tick)) panel.append(make("p", `${name} does not hold at ${when(tick)}.`));
    else if (!found.length) panel.append(make("p", p.input ? `${name} @ ${when(tick)} is an input fact.` : `${name} @ ${when(tick)} holds; its proof is not in this page.`));
    const tree = make("ul");
    found.slice(0, 20).forEach((id) => tree.append(node(id, 0)));
    panel.append(tree);
    if (data.command && !p.input) {
      const text = found.length ? data.facts[found[0]][0] : `${name} @ ${when(tick)}`;
      panel.append(make("p", "The same, or why not, on the command line:"), make("code", `${data.command} '${text.replaceAll("'", "'\\''")}'`));
    }
  }

  function node(id, depth) {
    const [text, , , rule, premises, compared] = data.facts[id], li = make("li");
    const label = [make("span", text, "fact"), rule < 0 ? make("span", "input", "rule input") : make("span", data.rules[rule][0], "rule")];
    if (rule >= 0) label[1].title = data.rules[rule][1];
    if (!premises.length && !compared) { li.append(...label); return li; }
    const details = make("details"), summary = make("summary"), below = make("ul");
    summary.append(...label);
    details.append(summary, below);
    let filled = false;
    const fill = () => { // below what is open only: proofs can be thousands of steps deep
      if (filled) return;
      filled = true;
      if (rule >= 0) below.append(make("li", data.rules[rule][1], "rule"));
      premises.forEach((premise) => below.append(node(premise, depth + 1)));
      (compared || []).forEach((line) => below.append(make("li", line, "fact")));
    };
    details.addEventListener("toggle", () => { if (details.open) fill(); });
    if (depth < 6) { fill(); details.open = true; }
    li.append(details);
    return li;
  }

  function choose(row, tick, show) {
    if (!rows[row] || rows[row].lane === undefined) return;
    cursor = { row, tick: Math.min(Math.max(tick, low), high) };
    const lane = rows[row].lane;
    if (show) explain(lane, cursor.tick);
    const y = row * ROW;
    if (y < box.scrollTop) box.scrollTop = y;
    if (y + ROW + HEAD > box.scrollTop + height) box.scrollTop = y + ROW + HEAD - height;
    if (cursor.tick < first || cursor.tick + 1 > last) view(cursor.tick - (last - first) / 2, cursor.tick + (last - first) / 2);
    const state = cursor.tick > +tin.value ? "to come" : cursor.tick > finalTo(predicates[rows[row].predicate], +tin.value) ? "not final yet" : "final";
    canvas.setAttribute("aria-label", `${lanes[lane].name}(${lanes[lane].label}) at ${when(cursor.tick)} ${holdsAt(lane, cursor.tick) ? "holds" : "does not hold"}, ${state}`);
    draw();
  }

  function view(from, to) {
    const span = Math.min(Math.max(to - from, 4), high + 1 - low + 2);
    const middle = (from + to) / 2;
    first = Math.max(low, Math.min(middle - span / 2, high + 1 - span));
    last = Math.min(first + span, Math.max(high + 1, low + 4));
    draw();
  }
  const zoom = (factor, around = (first + last) / 2) => view(around - (around - first) * factor, around + (last - around) * factor);

  // Hands
  let held = null;
  canvas.addEventListener("pointerdown", (event) => { held = { x: event.offsetX, first, last, far: false }; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointermove", (event) => {
    if (!held) return;
    const dx = event.offsetX - held.x;
    if (Math.abs(dx) > 4) held.far = true;
    if (held.far) { const by = dx / (width - LEFT) * (held.last - held.first); view(held.first - by, held.last - by); }
  });
  canvas.addEventListener("pointerup", (event) => {
    const clicked = held && !held.far;
    held = null;
    if (!clicked || event.offsetY < HEAD) return;
    const row = Math.floor((event.offsetY - HEAD + box.scrollTop) / ROW);
    if (rows[row] && rows[row].lane === undefined) { fold([rows[row].predicate]); return; }
    if (event.offsetX < LEFT || !rows[row]) return;
    choose(row, nearest(rows[row].lane, toTick(event.offsetX)), true);
  });
  function fold(which) {
    const close = which.some((p) => !folded.has(p));
    which.forEach((p) => close ? folded.add(p) : folded.delete(p));
    cursor = null;
    refilter();
  }
  // Where a pixel is many ticks, a click near a fact means the fact.
  function nearest(lane, tick) {
    const reach = Math.ceil((last - first) / (width - LEFT) * 3), list = lanes[lane].runs;
    let best = tick, gap = Infinity;
    for (let i = 0; i < list.length; i += 2) {
      const near = Math.min(Math.max(tick, list[i]), list[i] + list[i + 1] - 1), off = Math.abs(near - tick);
      if (off < gap) { gap = off; best = near; }
    }
    return gap <= reach ? best : tick;
  }
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    const by = event.deltaY || event.deltaX;
    zoom(by > 0 ? 1.25 : .8, first + (event.offsetX - LEFT) / (width - LEFT) * (last - first));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const at = cursor || { row: rows.findIndex((r) => r.lane !== undefined), tick: Math.ceil(first) };
    const by = event.shiftKey ? Math.max(1, Math.round((last - first) / 10)) : 1;
    const up = (way) => { let row = at.row + way; while (rows[row] && rows[row].lane === undefined) row += way; return rows[row] ? row : at.row; };
    const keys = {
      ArrowLeft: () => choose(at.row, at.tick - by), ArrowRight: () => choose(at.row, at.tick + by),
      ArrowUp: () => choose(up(-1), at.tick), ArrowDown: () => choose(up(1), at.tick),
      Home: () => choose(at.row, low), End: () => choose(at.row, high),
      Enter: () => choose(at.row, at.tick, true), " ": () => choose(at.row, at.tick, true),
      "+": () => zoom(.6, at.tick), "=": () => zoom(.6, at.tick), "-": () => zoom(1.6, at.tick),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  box.addEventListener("scroll", draw, { passive: true });
  filter.addEventListener("input", () => { cursor = null; box.scrollTop = 0; refilter(); });
  tin.addEventListener("input", moved);
  $("number").addEventListener("change", () => { tin.value = $("number").value; moved(); });
  $("in").addEventListener("click", () => zoom(.5));
  $("out").addEventListener("click", () => zoom(2));
  $("all").addEventListener("click", () => view(low, high + 1));
  $("fold").addEventListener("click", () => fold(inputs));
  window.addEventListener("resize", resize);

  tin.min = $("number").min = low; tin.max = $("number").max = high; tin.value = high;
  for (const note of data.notes) $("notes").append(make("li", note));
  last = Math.max(high + 1, low + 4);
  recolour();
  refilter();
  moved();
})();

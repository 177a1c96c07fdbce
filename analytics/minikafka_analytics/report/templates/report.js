// A cursor over all plots of a run, the values at it, and zooming. The paths in `svg.data` and `svg.lanes` are their figures
// (svg.py): x in parts of a second, -y in parts of a value. Nothing of a run becomes markup here: words are text nodes.
"use strict";
(() => {
  const ORDER = ["leads", "in sync", "away"];
  const LETTER = 7.6, GAP = 2, DRAGGED = 6, TICK_ROOM = 78, LEAST_SECONDS = 0.2;

  const el = (name, attributes = {}, ...children) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };
  const percent = (share) => `${(100 * share).toFixed(3)}%`;
  const niceStep = (value) => {
    if (value <= 0) return 1;
    const power = 10 ** Math.floor(Math.log10(value));
    return power * [1, 2, 2.5, 5, 10].find((n) => power * n >= value - 1e-9);
  };
  const timeStep = (seconds, most) =>
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600]
      .find((step) => seconds / step <= most) ?? Math.ceil(seconds / most / 3600) * 3600;
  const fixed = (value, step) => value.toFixed(step >= 1 ? 0 : step >= 0.1 ? 1 : 2);
  const clock = (time, whole, step) => {
    if (whole < 120) return `${fixed(time, step)} s`;
    const minutes = Math.floor(time / 60 + 1e-9), rest = fixed(Math.max(time - 60 * minutes, 0), step);
    return `${minutes}:${rest.padStart(step >= 1 ? 2 : step >= 0.1 ? 4 : 5, "0")}`;
  };
  const short = (value) => value >= 1e6 ? `${+(value / 1e6).toPrecision(6)}M`
    : value >= 1e4 ? `${+(value / 1e3).toPrecision(6)}k` : value.toLocaleString("en-US");
  const told = (value) => Math.abs(value - Math.round(value)) < 1e-6
    ? Math.round(value).toLocaleString("en-US") : value.toLocaleString("en-US", { maximumFractionDigits: 1 });
  const milliseconds = (value) => value >= 1000 ? `${(value / 1000).toPrecision(3)} s` : `${+value.toPrecision(3)} ms`;

  // The pieces of a path of M and l: lists of [x, value].
  const pieces = (path) => {
    const found = [];
    let x = 0, y = 0, relative = false, at = 0;
    const words = path.getAttribute("d").match(/[A-Za-z]|-?[\d.]+/g) ?? [];
    while (at < words.length) {
      const word = words[at];
      if (word === "M") { [x, y] = [+words[at + 1], +words[at + 2]]; found.push([[x, -y]]); relative = false; at += 3; }
      else if (word === "l") { relative = true; at += 1; }
      else if (word === "h") { x += +words[at + 1]; at += 2; }
      else if (/[a-z]/i.test(word)) at += 1;
      else if (relative) { x += +word; y += +words[at + 1]; found.at(-1).push([x, -y]); at += 2; }
      else at += 1;
    }
    return found;
  };
  // The stretches of a lane, a path of m and h.
  const spans = (path) => {
    let x = 0;
    return [...path.getAttribute("d").matchAll(/m(-?\d+) 0h(\d+)/g)].map(([, gap, length]) => {
      x += +gap;
      const began = x;
      x += +length;
      return [began, x];
    });
  };
  const nearest = (points, x) => {
    let low = 0, high = points.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (points[middle][0] <= x) low = middle; else high = middle;
    }
    return Math.abs(points[low][0] - x) <= Math.abs(points[high][0] - x) ? points[low] : points[high];
  };

  class Series {
    constructor(path) {
      this.name = path.dataset.name;
      this.kind = ["steps", "dots"].find((kind) => path.classList.contains(kind)) ?? "line";
      this.pieces = pieces(path);
      this.points = this.pieces.flat();
    }
    // The value at a time, as it was measured next to it; null where nothing is known.
    at(x, reach) {
      if (this.kind === "dots") {
        const found = this.points.length ? nearest(this.points, x) : null;
        return found && Math.abs(found[0] - x) <= reach ? found[1] : null;
      }
      const piece = this.pieces.find((each) => each[0][0] <= x && x <= each.at(-1)[0]);
      if (this.kind === "steps") return piece ? piece[1][1] - piece[0][1] : 0;
      return piece ? nearest(piece, x)[1] : null;
    }
  }

  class Plot {
    constructor(svg, run) {
      const own = svg.dataset, data = svg.querySelector(".data"), faults = svg.querySelector(".faults");
      Object.assign(this, { svg, run, data, values: svg.querySelector(".values") });
      this.stretched = [faults, svg.querySelector(".lanes")].filter(Boolean);
      this.top = +faults.getAttribute("y");
      this.high = +faults.getAttribute("height");
      this.parts = +own.parts;
      this.lowest = +own.lowest;
      this.highest = +own.top;
      this.logarithmic = own.scale === "log";
      this.floats = own.scale === "floating";
      this.ticks = this.values ? [...this.values.childNodes] : [];
      this.view = data && data.getAttribute("viewBox");
      this.series = data ? [...data.querySelectorAll("path")].map((path) => new Series(path)) : [];
      this.lanes = [...svg.querySelectorAll(".lanes .lane")].filter((path) => path.dataset.role).map((path) =>
        ({ group: path.dataset.group, role: path.dataset.role, who: path.dataset.who, spans: spans(path) }));
      this.marks = [...svg.querySelectorAll(".mark")].map((mark) =>
        ({ mark, time: +mark.dataset.time, y: mark.getAttribute("y"), value: mark.dataset.value }));
    }
    // Shows the run from `from` to `to` (parts of a second), and the values there.
    show(from, to, whole) {
      for (const svg of this.stretched) {
        const [, y, , height] = svg.getAttribute("viewBox").split(" ");
        svg.setAttribute("viewBox", `${from} ${y} ${to - from} ${height}`);
      }
      let low = 0, high = this.highest;
      if (this.data) {
        const [, y, , height] = this.view.split(" ").map(Number);
        let top = y, tall = height;
        if (!whole && !this.logarithmic) {
          [low, high] = this.extent(from, to);
          const edge = (high - low) * 3 / this.high;
          [top, tall] = [-high - edge, high - low + 2 * edge];
        }
        this.data.setAttribute("viewBox", `${from} ${top} ${to - from} ${tall}`);
        if (!this.logarithmic) this.scale(low, high, whole);
      }
      for (const { mark, time, y, value } of this.marks) {
        mark.setAttribute("x", percent((time - from) / (to - from)));
        const level = value === undefined ? +y : this.top + this.high * (1 - (+value - low) / (high - low));
        mark.setAttribute("y", level);
        const inside = level >= this.top - 1 && (value === undefined || level <= this.top + this.high + 1);
        mark.style.display = time >= from && time <= to && inside ? "" : "none";
      }
    }
    // The lowest and highest value of an axis for what is to be seen.
    extent(from, to) {
      let low = Infinity, high = -Infinity;
      for (const series of this.series) for (const piece of series.pieces) piece.forEach(([x, y], n) => {
        const before = piece[n - 1]?.[0] ?? x, after = piece[n + 1]?.[0] ?? x;
        if (after < from || before > to) return;
        low = Math.min(low, y);
        high = Math.max(high, y);
      });
      if (high <= 0) return [0, this.highest];
      const floats = this.floats && low > high - low;
      const step = niceStep(Math.max(floats ? high - low : high, this.parts) * 1.04 / 4);
      const bottom = floats ? Math.floor(low / step) * step : 0;
      return [bottom, bottom + Math.max(Math.ceil((high - bottom) * 1.02 / step), 1) * step];
    }
    scale(low, high, whole) {
      if (whole) return this.values.replaceChildren(...this.ticks);
      const step = niceStep((high - low) / this.parts / 4) * this.parts, drawn = [];
      for (let value = Math.ceil(low / step) * step; value <= high + step / 1000; value += step) {
        const y = this.top + this.high * (1 - (value - low) / (high - low));
        drawn.push(el("rect", { class: "grid", y: y.toFixed(1), width: "100%", height: 1 }),
          el("text", { class: "tick end", x: -7, y: (y + 3.6).toFixed(1) }, short(value / this.parts)));
      }
      const unit = this.ticks.filter((tick) => tick.classList.contains("unit"));
      this.values.replaceChildren(...drawn, ...unit.map((tick) => tick.cloneNode(true)));
    }
    said(value) {
      if (value === null) return "–";
      if (this.logarithmic) return milliseconds(this.lowest * 10 ** (value / this.parts));
      return told(value / this.parts);
    }
    // What is to be told of a moment: pairs of a name and a value.
    at(x, reach) {
      const rows = this.series.filter((series) => series.name).map((series) => [series.name, this.said(series.at(x, reach))]);
      const groups = new Map();
      for (const { group, role, who, spans: lengths } of this.lanes) {
        if (!lengths.some(([began, ended]) => began <= x && x <= ended)) continue;
        if (!groups.has(group)) groups.set(group, new Map());
        const roles = groups.get(group);
        roles.set(role, [...(roles.get(role) ?? []), who].filter(Boolean));
      }
      for (const [group, roles] of groups) rows.push([group,
        [...roles].sort(([one], [other]) => ORDER.indexOf(one) - ORDER.indexOf(other)).map(([role, who]) => `${role} ${[...new Set(who)].join(", ")}`.trim()).join("; ")]);
      return rows;
    }
  }

  class Run {
    constructor(parts) {
      this.label = parts.dataset.run;
      this.whole = +parts.dataset.whole;
      this.perSecond = +parts.dataset.perSecond;
      this.faults = JSON.parse(parts.dataset.faults).map(([from, to, number, title]) => ({ from, to, number, title }));
      this.faults.sort((one, other) => one.from - other.from || one.number - other.number);
      const part = (name) => document.getElementById(`${name}-${this.label}`);
      Object.assign(this, { labels: part("labels"), times: part("times"), cursor: part("cursor") });
      this.plots = [...document.querySelectorAll(`svg.plot[data-run="${this.label}"]`)].map((svg) => new Plot(svg, this));
      this.button = document.querySelector(`button.whole[data-run="${this.label}"]`);
      this.button?.addEventListener("click", () => this.show(0, this.whole));
      [this.from, this.to] = [0, this.whole];
      this.axis();
    }
    width() { return this.plots[0]?.svg.getBoundingClientRect().width || 580; }
    show(from, to) {
      const least = LEAST_SECONDS * this.perSecond, middle = (from + to) / 2;
      if (to - from < least) [from, to] = [middle - least / 2, middle + least / 2];
      [this.from, this.to] = [Math.max(from, 0), Math.min(to, this.whole)];
      const whole = this.from <= 0 && this.to >= this.whole;
      for (const plot of this.plots) plot.show(this.from, this.to, whole);
      if (this.button) this.button.hidden = whole;
      this.axis();
    }
    share(x) { return (x - this.from) / (this.to - this.from); }
    // Ticks and labels of faults, for the width there is.
    axis() {
      const width = this.width(), seconds = (this.to - this.from) / this.perSecond, whole = this.whole / this.perSecond;
      const step = timeStep(seconds, Math.max(Math.floor(width / TICK_ROOM), 1)), ticks = [];
      for (let n = Math.ceil(this.from / this.perSecond / step - 1e-6); n * step <= this.to / this.perSecond + 1e-6; n++) {
        ticks.push(el("svg", { class: "at", x: percent(this.share(n * step * this.perSecond)) },
          el("path", { class: "axis", d: "M0 0v4" }), el("text", { class: "tick middle", y: 17 }, clock(n * step, whole, step))));
      }
      this.times.replaceChildren(...ticks);
      this.labels.replaceChildren(...this.groups(width).map(({ at, text, room, title }) =>
        el("svg", { class: "tab", x: percent(at / width) }, el("title", {}, title),
          el("rect", { class: "band-label", width: room, height: 16, rx: 3 }),
          el("text", { class: "band-text", x: room / 2, y: 12 }, text))));
    }
    // As `labels` in timeline.py: a label begins where its first fault does, and ends before the next label's.
    groups(width) {
      const text = (group) => group.length === 1 ? `F${group[0].number}`
        : `F${Math.min(...group.map((each) => each.number))}–${Math.max(...group.map((each) => each.number))}`;
      const room = (group) => text(group).length * LETTER + 8;
      const start = (fault) => Math.min(Math.max(this.share(fault.from), 0), 1) * width;
      const place = (group) => Math.max(Math.min(start(group[0]), width - room(group)), 0);
      const found = [];
      for (const fault of this.faults) {
        if (fault.to < this.from || fault.from > this.to) continue;
        found.push([fault]);
        while (found.length > 1) {
          const [before, last] = found.slice(-2), at = place(last);
          if (start(before.at(-1)) <= at && place(before) + room(before) + GAP <= at) break;
          found.pop();
          before.push(...last);
        }
      }
      return found.map((group) => ({ at: place(group), text: text(group), room: room(group),
        title: group.length === 1 ? `F${group[0].number}: ${group[0].title}` : `${group.length} faults` }));
    }
    mark(x, until = null) {
      const line = (at) => el("line", { class: "cursor", x1: percent(this.share(at)), x2: percent(this.share(at)), y1: 24, y2: "100%" });
      if (x === null) return this.cursor.replaceChildren();
      if (until === null) return this.cursor.replaceChildren(line(x));
      const [low, high] = [Math.min(x, until), Math.max(x, until)].map((each) => this.share(each));
      this.cursor.replaceChildren(el("rect", { class: "picked", x: percent(low), width: percent(high - low), y: 24, height: "100%" }));
    }
    time(x) {
      const seconds = x / this.perSecond, whole = this.whole / this.perSecond;
      return `${seconds.toFixed(2)} s${whole < 120 ? "" : ` (${clock(Math.floor(seconds), whole, 1)})`}`;
    }
  }

  const readout = document.createElement("div");
  readout.className = "readout";
  readout.setAttribute("role", "status");
  readout.hidden = true;
  const row = (name, value) => {
    const line = document.createElement("div"), word = document.createElement("span"), figure = document.createElement("b");
    word.textContent = name;
    figure.textContent = value;
    line.append(word, figure);
    return line;
  };
  const tell = (plot, x, left, top) => {
    const { run } = plot, reach = Math.max((run.to - run.from) / 100, run.perSecond);
    const struck = run.faults.filter((fault) => fault.from <= x && x <= fault.to);
    readout.replaceChildren(row("at", run.time(x)), ...struck.map((fault) => row(`F${fault.number}`, fault.title)),
      ...plot.at(x, reach).map(([name, value]) => row(name, value)));
    readout.hidden = false;
    const { width, height } = readout.getBoundingClientRect(), beside = left + 18 + width < innerWidth ? left + 18 : left - width - 18;
    readout.style.left = `${Math.max(beside, 4)}px`;
    readout.style.top = `${Math.max(Math.min(top - height / 2, innerHeight - height - 4), 4)}px`;
  };
  const quiet = (run) => { run.mark(null); readout.hidden = true; };

  const listen = (plot) => {
    const { svg, run } = plot;
    let pressed = null;
    const moment = (event) => {
      const box = svg.getBoundingClientRect(), share = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
      return run.from + share * (run.to - run.from);
    };
    const point = (x, event) => {
      run.mark(x);
      tell(plot, x, event.clientX, event.clientY);
      plot.x = x;
    };
    svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.target.closest("a")) return;
      pressed = { x: moment(event), at: event.clientX };
      point(pressed.x, event);
    });
    svg.addEventListener("pointermove", (event) => {
      const x = moment(event), dragged = pressed && Math.abs(event.clientX - pressed.at) > DRAGGED;
      if (dragged && !svg.hasPointerCapture(event.pointerId)) svg.setPointerCapture(event.pointerId);
      point(x, event);
      if (dragged) run.mark(pressed.x, x);
    });
    svg.addEventListener("pointerup", (event) => {
      if (pressed && Math.abs(event.clientX - pressed.at) > DRAGGED) {
        const ends = [pressed.x, moment(event)];
        quiet(run);
        run.show(Math.min(...ends), Math.max(...ends));
      }
      pressed = null;
    });
    svg.addEventListener("pointercancel", () => { pressed = null; quiet(run); });
    // A finger that is lifted leaves what it pointed at to be read.
    svg.addEventListener("pointerleave", (event) => { if (!pressed && event.pointerType !== "touch") quiet(run); });
    svg.addEventListener("dblclick", () => run.show(0, run.whole));
    svg.addEventListener("blur", () => quiet(run));
    svg.addEventListener("keydown", (event) => {
      const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === "Escape") { quiet(run); run.show(0, run.whole); }
      if (!way) return;
      event.preventDefault();
      plot.x = Math.min(Math.max((plot.x ?? run.from) + way * (run.to - run.from) / 100, run.from), run.to);
      const box = svg.getBoundingClientRect();
      run.mark(plot.x);
      tell(plot, plot.x, box.left + run.share(plot.x) * box.width, box.top + box.height / 2);
    });
  };

  document.documentElement.classList.add("scripted");
  document.body.append(readout);
  const runs = new Map([...document.querySelectorAll("svg.parts")].map((parts) => [parts.dataset.run, new Run(parts)]));
  for (const run of runs.values()) run.plots.forEach(listen);
  document.addEventListener("pointerdown", (event) => { if (!event.target.closest("svg.plot")) runs.forEach(quiet); });
  addEventListener("resize", () => runs.forEach((run) => run.axis()));
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-from]"), run = link && runs.get(link.dataset.run);
    if (run) {
      const [from, to] = [link.dataset.from, link.dataset.to].map((time) => time * run.perSecond);
      const beside = Math.max(to - from, 3 * run.perSecond);
      run.show(from - beside, to + beside);
      run.mark(from);
    }
    // Browsers that do not open what a link leads into.
    const asked = event.target.closest("a.asked")?.getAttribute("href").slice(1);
    if (asked) document.getElementById(asked)?.closest("details")?.setAttribute("open", "");
  });
})();

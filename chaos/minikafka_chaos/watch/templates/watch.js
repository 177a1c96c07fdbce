// Shows steps that Python has made: a state to begin with, and what each step changes. Nothing is decided here, and whatever
// comes from a cluster (names, reasons, records) becomes text, never HTML.
"use strict";
(() => {
  const KEYFRAME = 256, KEPT = 20000, PARTITIONS_MAX = 8, ROWS_MAX = 120, AFTER_MAX = 30, CELL = 28, EDGE = 4, COLOURS = 6, STRIDE = 5, DIGITS = 1000;
  const NOTABLE = new Set(["good", "bad", "warning", "fault"]);
  const byId = (id) => document.getElementById(id);
  const el = (tag, className = "", text = "") => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== "") made.textContent = text;
    return made;
  };
  const write = (node, text) => { if (node.textContent !== text) node.textContent = text; };
  const dress = (node, className) => { if (node.className !== className) node.className = className; };

  // -- the recording -------------------------------------------------------------------------------------------------------

  class Recording {
    constructor(beginning) {
      Object.assign(this, { title: beginning.title, live: beginning.live, forgotten: beginning.forgotten, meanings: beginning.meanings, verbs: beginning.verbs });
      this.steps = [];
      this.keyframes = [new Map(Object.entries(beginning.state))];
      this.newest = new Map(this.keyframes[0]);
      this.shown = { at: 0, state: new Map(this.keyframes[0]) };
    }
    static apply(state, step) {
      for (const key in step.c) if (step.c[key] === null) state.delete(key); else state.set(key, step.c[key]);
    }
    add(steps) {
      for (const step of steps) {
        this.steps.push(step);
        Recording.apply(this.newest, step);
        if (this.steps.length % KEYFRAME === 0) this.keyframes.push(new Map(this.newest));
      }
    }
    // Leaves out the older half where there is too much; returns how many steps that were.
    forget() {
      if (this.steps.length <= KEPT) return 0;
      const keyframes = this.keyframes.length >> 1, gone = keyframes * KEYFRAME;
      this.keyframes.splice(0, keyframes);
      this.steps.splice(0, gone);
      this.forgotten += gone;
      this.shown = { at: 0, state: new Map(this.keyframes[0]) };
      return gone;
    }
    // The state after so many steps: from the one that was shown last where that is near, else from a keyframe.
    state(at) {
      let { at: from, state } = this.shown;
      if (at < from || at - from > 4 * KEYFRAME) {
        const keyframe = Math.min(Math.floor(at / KEYFRAME), this.keyframes.length - 1);
        [from, state] = [keyframe * KEYFRAME, new Map(this.keyframes[keyframe])];
      }
      for (let n = from; n < at; n++) Recording.apply(state, this.steps[n]);
      this.shown = { at, state };
      return state;
    }
  }

  let recording = null, at = 0, playing = null, dirty = false, rows = [], token = null;
  const seconds = (step) => step.t - recording.steps[0].t;

  // -- brokers -------------------------------------------------------------------------------------------------------------

  const entries = (state, letter) => {
    const found = [];
    for (const [key, value] of state) if (key[0] === letter && key[1] === "|") found.push([key.split("|"), value]);
    return found;
  };
  const brokersOf = (state) => entries(state, "b").map(([[, id], value]) => [+id, value]).sort((one, other) => one[0] - other[0]);
  const cards = new Map();
  const showBrokers = (brokers) => {
    const known = new Set(brokers.map(([id]) => id));
    for (const [id, card] of cards) if (!known.has(id)) { card.card.remove(); cards.delete(id); }
    for (const [id, broker] of brokers) {
      if (!cards.has(id)) {
        const card = el("div"), name = el("b", "", `broker ${id}`), state = el("span", "state"), more = el("span", "more");
        card.append(name, state, more);
        cards.set(id, { card, state, more });
        const after = [...cards.keys()].filter((other) => other > id).sort((one, other) => one - other)[0];
        byId("brokers").insertBefore(card, after === undefined ? null : cards.get(after).card);
      }
      const { card, state, more } = cards.get(id), condition = broker.condition ?? "unknown";
      dress(card, `broker ${condition}`);
      write(state, condition);
      const facts = [broker.controller && "controller", broker.fenced && "fenced", broker.silent && condition !== "dead" && "metrics do not answer",
        ...(broker.faults ?? []), condition === "up" && broker.connections !== undefined && `${broker.connections} connection${broker.connections === 1 ? "" : "s"}`].filter(Boolean);
      write(more, facts.join(" · ") || "\u00a0");
    }
    const target = byId("target");
    if (target.options.length !== brokers.length) target.replaceChildren(...brokers.map(([id]) => new Option(`${id}`, id)));
  };

  // -- logs ----------------------------------------------------------------------------------------------------------------

  const lanes = new Map();
  const epochAt = (epochs, offset) => {
    let found = -1;
    for (const [epoch, start] of epochs) if (start <= offset) found = epoch;
    return found;
  };
  const colour = (epoch) => epoch < 0 ? "eu" : `e${epoch % COLOURS}`;
  // The last digits of a large offset: those that differ from cell to cell.
  const digits = (offset) => offset < DIGITS ? `${offset}` : `${offset % DIGITS}`.padStart(3, "0");
  const number = (value) => value === undefined || value === null ? "–" : value.toLocaleString("en");

  class Lane {
    constructor() {
      this.row = el("div", "lane");
      this.name = el("span", "name");
      this.crown = el("span", "crown");
      this.broker = el("b");
      this.role = el("span", "soft");
      this.name.append(this.crown, this.broker, this.role);
      this.track = el("div", "track");
      this.track.setAttribute("aria-hidden", "true"); // the line below says it in words
      this.earlier = el("span", "earlier");
      this.mark = el("span", "mark");
      this.track.append(this.earlier, this.mark);
      this.offsets = el("div", "offsets");
      this.cells = [];
      this.row.append(this.name, this.track, this.offsets);
    }
    show(id, replica, partition, broker, first, count, left, values) {
      const dead = (broker?.condition ?? "unknown") === "dead", leads = partition.leader === id;
      const inside = !partition.isr || partition.isr.includes(id);
      dress(this.row, `lane${dead ? " dead" : ""}${inside ? "" : " out"}`);
      write(this.crown, leads ? "♛ " : "");
      write(this.broker, `broker ${id}`);
      write(this.role, ` ${dead ? "dead" : leads ? "leader" : replica.role === "leader" ? "led, and does not know better" : replica.role ?? "no role yet"}${inside ? "" : ", not in ISR"}`);
      const begin = replica.log_start ?? 0, end = replica.log_end ?? 0, epochs = replica.epochs ?? [];
      const committed = replica.high_watermark, flushed = replica.flushed;
      write(this.earlier, begin < first && end > begin ? `${number(Math.min(first, end) - begin)} …` : "");
      while (this.cells.length < count) { const cell = el("span"); this.cells.push(cell); this.track.insertBefore(cell, this.mark); }
      for (let n = 0; n < this.cells.length; n++) {
        const cell = this.cells[n], offset = first + n;
        if (n >= count || offset < begin || offset >= Math.max(end, replica.cut_end ?? 0)) { cell.hidden = true; continue; }
        const epoch = epochAt(epochs, offset);
        cell.hidden = false;
        if (offset >= end) dress(cell, "cell cut");
        else dress(cell, `cell ${colour(epoch)} ${committed !== undefined && offset < committed ? "committed" : "uncommitted"}`
          + (flushed === undefined ? "" : offset < flushed ? " flushed" : " unflushed"));
        write(cell, (offset < end && values.get(`${offset}@${epoch}`)) || (left > EDGE && offset % STRIDE ? "" : digits(offset)));
        const place = `${left + n * CELL}px`;
        if (cell.style.left !== place) cell.style.left = place;
      }
      const mark = committed === undefined || committed < first ? -9 : left + (Math.min(committed, first + count) - first) * CELL - 2.5;
      if (this.mark.style.left !== `${mark}px`) this.mark.style.left = `${mark}px`;
      const chain = epochs.map(([epoch, start]) => `${epoch < 0 ? "?" : epoch} from ${number(start)}`);
      write(this.offsets, (replica.cut_end > end ? `${number(replica.cut_end - end)} cut off · ` : "") + `log ${number(begin)} to ${number(replica.log_end)} · high watermark ${number(committed)} · flushed ${number(flushed)}`
        + (replica.remote_end === undefined ? "" : ` · its leader knows of ${number(replica.remote_end)}`)
        + (chain.length ? ` · epochs ${(chain.length > 6 ? ["…", ...chain.slice(-6)] : chain).join(", ")}` : ""));
    }
  }

  const showLogs = (state, brokers) => {
    const partitions = entries(state, "p").map(([[, topic, partition], value]) => ({ name: `${topic}-${partition}`, topic, partition: +partition, value }));
    partitions.sort((one, other) => one.topic < other.topic ? -1 : one.topic > other.topic ? 1 : one.partition - other.partition);
    const internal = byId("internal").checked, listed = partitions.filter((each) => internal || !each.topic.startsWith("__"));
    const choice = byId("partition"), names = listed.map((each) => each.name).join("\n");
    if (choice.dataset.names !== names) {
      const before = choice.value;
      choice.dataset.names = names;
      choice.replaceChildren(new Option(listed.length > PARTITIONS_MAX ? `the first ${PARTITIONS_MAX} of ${listed.length}` : "all", ""), ...listed.map((each) => new Option(each.name, each.name)));
      choice.value = listed.some((each) => each.name === before) ? before : "";
    }
    const shown = choice.value ? listed.filter((each) => each.name === choice.value) : listed.slice(0, PARTITIONS_MAX);
    const conditions = new Map(brokers), replicas = new Map();
    for (const [[, topic, partition, broker], replica] of entries(state, "r")) {
      const name = `${topic}-${partition}`;
      if (!replicas.has(name)) replicas.set(name, []);
      replicas.get(name).push([+broker, replica]);
    }
    const kept = new Set(shown.map((each) => each.name));
    for (const [name, part] of lanes) if (!kept.has(name)) { part.section.remove(); lanes.delete(name); }
    // A node that is put where it is already is laid out anew with all that is in it: each is moved only if it has to be.
    const stands = (parent, place, node) => { if (parent.children[place] !== node) parent.insertBefore(node, parent.children[place] ?? null); };
    for (const [place, { name, value }] of shown.entries()) {
      if (!lanes.has(name)) {
        const section = el("section", "partition"), head = el("div", "head"), title = el("h2", "", name), facts = el("span");
        head.append(title, facts);
        section.append(head);
        lanes.set(name, { section, facts, lanes: new Map() });
      }
      const part = lanes.get(name), mine = (replicas.get(name) ?? []).sort((one, other) => one[0] - other[0]);
      const led = value.leader !== undefined && value.leader >= 0;
      dress(part.facts, led ? "" : "offline");
      write(part.facts, `${led ? `leader ${value.leader}` : "no leader"} · leader epoch ${number(value.leader_epoch)} · partition epoch ${number(value.partition_epoch)} · ISR ${value.isr ? value.isr.join(", ") || "empty" : "unknown"}`);
      stands(byId("lanes"), place, part.section);
      const width = Math.max((byId("lanes").clientWidth || 700) - 194, 120), most = Math.max(...mine.map(([, each]) => Math.max(each.log_end ?? 0, each.cut_end ?? 0)), 0);
      const least = Math.min(...mine.map(([, each]) => each.log_start ?? 0), most);
      let count = Math.floor((width - 2 * EDGE) / CELL), left = EDGE;
      if (most - least > count) { left = 78; count = Math.floor((width - left - EDGE) / CELL); }
      // The window of a long log moves by some cells at once, and of so many one has its offset: laying out text is what takes time.
      const first = most - least > count ? Math.ceil((most - count) / STRIDE) * STRIDE : Math.min(least, most), values = new Map();
      for (const record of value.records ?? []) values.set(`${record.offset}@${record.leader_epoch}`, record.value);
      for (const [id, lane] of part.lanes) if (!mine.some(([other]) => other === id)) { lane.row.remove(); part.lanes.delete(id); }
      mine.forEach(([id, replica], place) => {
        if (!part.lanes.has(id)) part.lanes.set(id, new Lane());
        const lane = part.lanes.get(id);
        stands(part.section, place + 1, lane.row);
        lane.show(id, replica, value, conditions.get(id), first, Math.min(count, most - first), left, values);
      });
    }
  };

  const showGroups = (state) => {
    const groups = entries(state, "g"), box = byId("groups");
    const facts = [];
    for (const [[, ...name], group] of groups) for (const [topic, partition, offset] of group.committed?.length ? group.committed : [["–", 0, null]]) {
      const leader = state.get(`p|${topic}|${partition}`)?.leader, mark = state.get(`r|${topic}|${partition}|${leader}`)?.high_watermark;
      facts.push([name.join("|"), group.members ?? "–", topic === "–" ? "–" : `${topic}-${partition}`, number(offset), mark === undefined || offset === null ? "–" : number(mark - offset)]);
    }
    const text = JSON.stringify(facts);
    if (box.dataset.facts === text) return;
    box.dataset.facts = text;
    if (!facts.length) return box.replaceChildren();
    const table = el("table"), head = el("tr");
    ["consumer group", "members", "partition", "committed", "lag"].forEach((word, n) => { const cell = el("th", n > 2 || n === 1 ? "r" : "", word); cell.scope = "col"; head.append(cell); });
    table.append(head, ...facts.map((fact) => { const row = el("tr"); row.append(...fact.map((word, n) => el("td", n > 2 || n === 1 ? "r" : "", `${word}`))); return row; }));
    box.replaceChildren(table);
  };

  // -- events --------------------------------------------------------------------------------------------------------------

  // The steps that are listed, by their place; kept as steps come.
  let listed = [], looked = 0, shownFrom = 0;
  const wanted = (step) => {
    if (!step.x || (step.k === "ordinary" && !byId("ordinary").checked) || (step.i && !byId("internal").checked)) return false;
    const find = byId("find").value.toLowerCase();
    return !find || `${step.s} ${step.x}`.toLowerCase().includes(find);
  };
  const relist = () => { listed = []; looked = 0; ask(); };
  const position = (step) => {
    let low = 0, high = listed.length;
    while (low < high) { const middle = (low + high) >> 1; if (listed[middle] < step) low = middle + 1; else high = middle; }
    return low;
  };
  const clock = (step) => `${seconds(step).toFixed(3)}`;
  const showList = () => {
    for (; looked < recording.steps.length; looked++) if (wanted(recording.steps[looked])) listed.push(looked);
    const here = position(at), to = Math.min(here + AFTER_MAX, listed.length), from = Math.max(to - ROWS_MAX, 0), list = byId("lines");
    while (rows.length < to - from) {
      const row = el("li"), time = el("time"), who = el("b"), text = el("span");
      row.append(time, who, text);
      rows.push({ row, time, who, text });
      list.append(row);
    }
    // Rows that have gone out at the top come in again at the bottom; those between keep their text.
    const moved = from - shownFrom;
    if (moved > 0 && moved < rows.length) { const again = rows.splice(0, moved); rows.push(...again); list.append(...again.map(({ row }) => row)); }
    shownFrom = from;
    rows.forEach(({ row, time, who, text }, n) => {
      row.hidden = from + n >= to;
      if (row.hidden) return;
      const place = listed[from + n], step = recording.steps[place];
      if (row.dataset.place !== `${place}`) row.dataset.place = place;
      write(time, clock(step));
      write(who, `${step.s} `);
      write(text, step.x);
      dress(text, step.k);
      dress(row, `${from + n === here - 1 ? "here" : ""}${place >= at ? " later" : ""}`);
    });
    const now = rows[here - 1 - from]?.row, box = byId("list");
    if (now && !now.hidden) box.scrollTop = now.offsetTop - box.clientHeight + Math.min(box.clientHeight / 2, 110);
  };

  // -- the moment ----------------------------------------------------------------------------------------------------------

  const show = () => {
    dirty = false;
    if (!recording) return;
    const state = recording.state(at), brokers = brokersOf(state);
    showBrokers(brokers);
    showLogs(state, brokers);
    showGroups(state);
    showList();
    const slider = byId("slider"), count = recording.steps.length, step = recording.steps[at - 1];
    if (+slider.max !== count) slider.max = count;
    if (+slider.value !== at) slider.value = at;
    const when = step ? `+${clock(step)} s${step.t > 1e9 && recording.live ? `, ${new Date(step.t * 1000).toLocaleTimeString()}` : ""}` : "before the first";
    const words = `step ${number(at + recording.forgotten)} of ${number(count + recording.forgotten)}, ${when}`;
    write(byId("moment"), words);
    slider.setAttribute("aria-valuetext", words);
    const told = byId("now"), line = step?.x ? `${step.s}: ${step.x}` : step ? "offsets have moved" : "";
    if (told.dataset.line !== line) {
      told.dataset.line = line;
      told.replaceChildren(el("span", step?.k ?? "soft", line), el("span", "meaning", recording.meanings[step?.e] ?? ""));
    }
  };
  const ask = () => { if (!dirty) { dirty = true; requestAnimationFrame(show); } };
  const go = (to) => {
    if (!recording) return;
    at = Math.min(Math.max(to, 0), recording.steps.length);
    ask();
  };
  const goNotable = (way) => {
    for (let n = at - 1 + way; n >= 0 && n < recording.steps.length; n += way) if (NOTABLE.has(recording.steps[n].k) && wanted(recording.steps[n])) return go(n + 1);
    go(way < 0 ? 0 : recording.steps.length);
  };
  const stop = () => {
    clearTimeout(playing);
    playing = null;
    write(byId("play"), "▶");
    byId("play").setAttribute("aria-label", "Play");
  };
  const play = () => {
    if (playing !== null) return stop();
    if (at >= recording.steps.length) at = 0;
    write(byId("play"), "⏸");
    byId("play").setAttribute("aria-label", "Pause");
    const on = () => {
      go(at + 1);
      const one = recording.steps[at - 1], next = recording.steps[at];
      if (!next) return stop();
      const gap = Math.min(Math.max((next.t - one.t) * 1000, next.x ? 350 : 60), 1400);
      playing = setTimeout(on, gap / byId("pace").value);
    };
    playing = setTimeout(on, 0);
  };

  const KEYS = {
    ArrowLeft: (event) => event.shiftKey ? goNotable(-1) : go(at - 1),
    ArrowRight: (event) => event.shiftKey ? goNotable(1) : go(at + 1),
    Home: () => go(0),
    End: () => go(recording.steps.length),
    " ": play,
  };
  document.addEventListener("keydown", (event) => {
    const typed = event.target.matches("input:not([type=range]), select"), pressed = event.key === " " && event.target.matches("button");
    if (!recording || !(event.key in KEYS) || typed || pressed || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    if (event.key !== " ") stop();
    KEYS[event.key](event);
  });
  const click = (id, done) => byId(id).addEventListener("click", () => recording && done());
  click("first", () => { stop(); go(0); });
  click("back", () => { stop(); go(at - 1); });
  click("play", play);
  click("next", () => { stop(); go(at + 1); });
  click("last", () => { stop(); go(recording.steps.length); });
  byId("slider").addEventListener("input", (event) => { stop(); go(+event.target.value); });
  byId("partition").addEventListener("change", ask);
  for (const id of ["internal", "ordinary"]) byId(id).addEventListener("change", relist);
  byId("find").addEventListener("input", relist);
  byId("lines").addEventListener("click", (event) => { const row = event.target.closest("li"); if (row) { stop(); go(+row.dataset.place + 1); } });
  addEventListener("resize", ask);

  const legend = [["cell e0 committed flushed", "committed (below the high watermark)"], ["cell e0 uncommitted flushed", "not committed"],
    ["cell e0 committed unflushed", "not flushed: a power loss takes it"], ["mark", "high watermark"], ["cell e1 committed", "another leader epoch"], ["cell eu committed", "epoch unknown"], ["cell cut", "cut off"]];
  byId("legend").append(...legend.map(([name, words]) => { const entry = el("li"); entry.append(el("span", name), words); return entry; }));

  // -- live ----------------------------------------------------------------------------------------------------------------

  const status = (words, bad = false) => { write(byId("status"), words); dress(byId("status"), bad ? "bad" : ""); };
  const begin = (beginning) => {
    recording = new Recording(beginning);
    [at, rows, listed, looked, shownFrom] = [0, [], [], 0, 0];
    byId("lines").replaceChildren();
    write(byId("title"), recording.title);
    document.title = recording.title;
    byId("verbs").hidden = !Object.keys(recording.verbs).length;
    byId("buttons").replaceChildren(...Object.entries(recording.verbs).map(([verb, words]) => {
      const button = el("button", "", words);
      button.type = "button";
      button.addEventListener("click", () => carryOut(verb, words));
      return button;
    }));
  };
  const add = (steps) => {
    const following = at === recording.steps.length && playing === null;
    recording.add(steps);
    const gone = recording.forget();
    if (gone) { at = Math.max(at - gone, 0); listed = listed.filter((each) => each >= gone).map((each) => each - gone); looked = Math.max(looked - gone, 0); }
    if (following) at = recording.steps.length;
    ask();
  };
  const headers = () => token ? { Authorization: `Bearer ${token}` } : {};
  const carryOut = async (verb, words) => {
    const broker = +byId("target").value, given = verb === "heal" ? {} : { broker }, answer = byId("answer");
    const buttons = [...byId("buttons").children];
    buttons.forEach((button) => { button.disabled = true; });
    dress(answer, "");
    write(answer, `${words}${verb === "heal" ? "" : ` of broker ${broker}`} …`);
    try {
      const response = await fetch(`v1/${verb}`, { method: "POST", headers: { ...headers(), "Content-Type": "application/json" }, body: JSON.stringify(given) });
      const { error } = await response.json();
      dress(answer, error ? "bad" : "");
      const told = error ?? `${words}${verb === "heal" ? "" : ` of broker ${broker}`}: done`;
      write(answer, told);
      if (!error) setTimeout(() => { if (answer.textContent === told) write(answer, ""); }, 5000);
    } catch (error) {
      dress(answer, "bad");
      write(answer, `${words}: ${error.message}`);
    }
    buttons.forEach((button) => { button.disabled = false; });
  };
  // Server-sent events, by fetch: EventSource can send no token.
  const stream = async () => {
    const response = await fetch("v1/steps", { headers: headers() });
    if (!response.ok) throw new Error((await response.json()).error);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) throw new Error("the server has ended");
      const messages = (rest + value).split("\n\n");
      rest = messages.pop();
      for (const message of messages) {
        const fields = Object.fromEntries(message.split("\n").map((line) => line.split(/: ?(.*)/s)));
        if (!fields.data) continue;
        const data = JSON.parse(fields.data);
        if (fields.event === "beginning") { begin(data); status(data.live ? "live" : "recorded"); }
        else if (fields.event === "failure") status(data, true);
        else add(data);
      }
    }
  };
  const connect = async () => {
    for (;;) {
      try { await stream(); } catch (error) { status(`${error.message}; asking again`, true); }
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  };

  // What stands behind the address: `#step=12`, where a recording is to begin, and `#token=...` of a live one.
  const asked = new URLSearchParams(location.hash.slice(1));
  const data = JSON.parse(byId("data").textContent);
  if (data) {
    begin(data);
    recording.add(data.steps);
    status("recorded");
    go(+asked.get("step") || 0);
  } else {
    token = asked.get("token");
    status("connecting");
    connect();
  }
})();

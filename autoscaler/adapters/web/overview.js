"use strict";
/* Many services: a line each, in the order of their names so that nothing jumps, and a card below the lines that were opened. */
const Overview = (() => {
  const { figure } = Charts, { MODES, lateness, span, element, mark, move, capital, put } = Panels;
  const CELLS = ["name", "mode", "load", "needs", "has", "getting", "wait", "state", "why"];

  /** What is wrong with a service, worst first: [tone, words]; an empty tone means nothing. */
  function trouble(row, link) {
    if (link.state === "lost") return ["bad", `silent ${span(link.age)}`];
    if (row.blind === 2) return ["bad", "no metrics"];
    if (row.overload === "overloaded") return ["bad", "overloaded"];
    if (row.wait_s !== null && row.wait_s > row.slo_wait_s) return ["bad", "late"];
    if (link.state === "held") return ["warn", `silent ${span(link.age)}`];
    if (row.blind === 1) return ["warn", "metrics held"];
    return ["", row.desired > row.ready ? "starting" : row.overload === "unknown" ? "learning" : "fits"];
  }

  class Line {
    constructor(row, toggle) {
      this.row = row;
      this.node = element("li");
      this.button = element("button", undefined, "line");
      this.button.type = "button";
      this.button.setAttribute("aria-expanded", "false");
      this.cells = Object.fromEntries(CELLS.map((name) => [name, element("span", undefined, `cell-${name}`)]));
      this.button.append(...Object.values(this.cells));
      this.button.addEventListener("click", () => toggle(this.row.workload));
      this.slot = element("div", undefined, "slot");
      this.node.append(this.button, this.slot);
      put(this.cells.name, row.workload);
    }

    draw(now, overall) {
      const { row, cells } = this, link = lateness(row, now, overall), [tone, words] = trouble(row, link);
      const gone = link.state === "lost", blind = gone || row.blind === 2;
      this.tone = tone;
      this.words = words;
      put(cells.mode, row.mode);
      cells.mode.title = MODES[row.mode] ?? "Active: acts on its decisions";
      mark(cells.mode, "mode", row.mode === "Active" ? "" : "other");
      put(cells.load, blind ? "?" : figure(row.load_rps));
      put(cells.needs, blind || row.needs === null ? "?" : String(row.needs));
      put(cells.has, gone ? "?" : String(row.ready));
      put(cells.getting, gone ? "?" : String(row.starting));
      mark(cells.getting, "none", row.starting ? "" : "yes");
      put(cells.wait, blind || row.wait_s === null ? "?" : span(row.wait_s));
      put(cells.state, words);
      mark(cells.state, "tone", tone);
      cells.state.title = link.state === "live" ? "" : link.text;
      const text = capital(row.text.replace(/^[^:]*: /, ""));
      put(cells.why, row.before === row.desired ? text : `${move(row.before, row.desired)}: ${text}`);
      cells.why.title = row.text;
    }

    fits(wanted, troubled) {
      if (troubled && !this.tone) return false;
      const { row } = this;
      return !wanted || `${row.workload} ${row.mode} ${row.reason} ${this.words} ${row.text}`.toLowerCase().includes(wanted);
    }
  }

  class Table {
    constructor(host, find, troubled, found) {
      this.lines = new Map();
      this.open = new Set();
      Object.assign(this, { host, find, troubled, found, onOpen: () => {} });
      find.addEventListener("input", () => this.filter());
      troubled.addEventListener("click", () => {
        troubled.setAttribute("aria-pressed", String(troubled.getAttribute("aria-pressed") !== "true"));
        this.filter();
      });
    }

    /** Take rows; new ones find their place in the order of the names. */
    take(rows) {
      let grown = false;
      for (const row of rows) {
        const line = this.lines.get(row.workload);
        if (line) line.row = row;
        else {
          this.lines.set(row.workload, new Line(row, (name) => this.toggle(name)));
          grown = true;
        }
      }
      if (grown) this.host.append(...[...this.lines.keys()].sort().map((name) => this.lines.get(name).node));
    }

    forget(name) {
      this.lines.get(name)?.node.remove();
      this.lines.delete(name);
      this.open.delete(name);
    }

    toggle(name, most = 12) {
      const { open } = this;
      if (open.has(name)) open.delete(name);
      else open.add(name);
      while (open.size > most) open.delete(open.values().next().value);
      for (const [key, line] of this.lines) line.button.setAttribute("aria-expanded", String(open.has(key)));
      this.onOpen();
    }

    slot(name) { return this.lines.get(name)?.slot; }

    draw(now, link) {
      for (const line of this.lines.values()) line.draw(now, link);
      this.filter();
    }

    filter() {
      const wanted = this.find.value.trim().toLowerCase(), only = this.troubled.getAttribute("aria-pressed") === "true";
      let shown = 0, bad = 0;
      for (const line of this.lines.values()) {
        const fits = line.fits(wanted, only);
        shown += fits;
        bad += Boolean(line.tone);
        if (line.node.hidden === fits) line.node.hidden = !fits;
      }
      put(this.found, `${shown === this.lines.size ? "" : `${shown} of `}${this.lines.size} services, ${bad || "none"} in trouble`);
    }
  }
  return { Table };
})();

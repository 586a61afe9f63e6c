"use strict";
/* Warm pools: a card each, with every slot as a cell by its stage, who has slots on loan, and what holds the pool back. */
const Pools = (() => {
  const { figure } = Charts, { span, element, mark, put, percent } = Panels;
  const STAGES = {
    requested: "ordered", node_launched: "node launched", registered: "node joined", gpu_ready: "GPUs ready", image_present: "images there",
    weights_warm: "warm", leased: "marked for a replica", draining: "going", failed: "failed", expired: "expired", quarantined: "quarantined",
  };
  const WELL = new Set(["warm", "filling"]), MOST = 60;
  const TONES = { weights_warm: "warm", leased: "warm", draining: "going", failed: "bad", expired: "bad", quarantined: "bad" };

  class Card {
    constructor() {
      this.node = element("article", undefined, "pool");
      this.head = element("h3");
      this.state = element("p", undefined, "pool-state");
      this.cells = element("div", undefined, "pool-cells");
      this.cells.setAttribute("role", "img");
      this.stages = element("p", undefined, "note");
      this.figures = element("dl");
      this.why = element("p", undefined, "pool-why");
      this.loans = element("ul", undefined, "pool-loans");
      this.out = element("ul", undefined, "pool-out");
      const top = element("header");
      top.append(this.head, this.state);
      this.node.append(top, this.cells, this.stages, this.figures, this.why, this.loans, this.out);
    }

    draw(pool) {
      put(this.head, pool.pool);
      put(this.state, pool.state);
      mark(this.state, "tone", WELL.has(pool.state) ? "" : "bad");
      const slots = pool.stages.flatMap(([stage, count]) => Array(count).fill(stage));
      while (this.cells.children.length > Math.min(slots.length, MOST)) this.cells.lastChild.remove();
      slots.slice(0, MOST).forEach((stage, i) => {
        const cell = this.cells.children[i] ?? this.cells.appendChild(element("i"));
        mark(cell, "tone", TONES[stage] ?? "starting");
        cell.title = STAGES[stage] ?? stage;
      });
      const words = pool.stages.map(([stage, count]) => `${count} ${STAGES[stage] ?? stage}`).join(", ") || "no slots";
      put(this.stages, slots.length > MOST ? `${words}; the first ${MOST} are drawn` : words);
      this.cells.setAttribute("aria-label", words);
      const known = (value, shown) => (value === null ? "?" : shown(value));
      const rows = [
        ["Warm", known(pool.warm, String)], ["Wanted", known(pool.target, String)], ["Starting", known(pool.starting, String)],
        ["Found warm", known(pool.hit_ratio, (ratio) => percent(ratio, 1))], ["Refill", known(pool.refill_s, span)],
        ["Idle warm", `${figure(pool.idle_warm_h)} slot-h`], ["Lent", known(pool.lent, String)],
      ];
      rows.forEach(([name, value], i) => {
        const row = this.figures.children[i] ?? this.figures.appendChild(element("div"));
        if (!row.children.length) row.append(element("dt", name), element("dd"));
        put(row.lastChild, value);
      });
      put(this.why, pool.text);
      while (this.loans.children.length > pool.loans.length) this.loans.lastChild.remove();
      pool.loans.forEach((loan, i) => {
        const line = this.loans.children[i] ?? this.loans.appendChild(element("li"));
        put(line, loan.text);
        mark(line, "tone", loan.state === "lent" ? "" : "warn");
      });
      const said = (b) => (b.state === "open" ? "no capacity" : "capacity may be back");
      const lines = pool.breakers.map((b) => `${said(b)}: ${[b.sku, b.capacity_type, b.zone].filter(Boolean).join(" ")}, ${b.state}`);
      if (lines.join() !== [...this.out.children].map((n) => n.textContent).join()) this.out.replaceChildren(...lines.map((text) => element("li", text)));
    }
  }

  class Board {
    constructor(host) {
      this.host = host;
      this.list = host.querySelector("div");
      this.cards = new Map();
    }

    draw(pools) {
      this.host.hidden = !pools.length;
      const names = new Set(pools.map((pool) => pool.pool));
      for (const [name, card] of this.cards) {
        if (names.has(name)) continue;
        card.node.remove();
        this.cards.delete(name);
      }
      for (const pool of pools) {
        if (!this.cards.has(pool.pool)) this.cards.set(pool.pool, new Card());
        const card = this.cards.get(pool.pool);
        card.draw(pool);
        if (card.node.parentNode !== this.list) this.list.append(card.node);
      }
    }
  }
  return { Board };
})();

"use strict";
/* What stands beside the present: the accounts of shadow mode, and how good the forecast was, over time. */
const Beside = (() => {
  const { clock, figure } = Charts;
  const WORDS = { observed: "as it happened", modelled: "the same replicas, by the model", ours: "with Headroom's replicas" };
  const STATES = { leads: "leads", off: "off", tried: "stands by", untried: "not scored" };
  const percent = (share) => (share === null ? "–" : `${(100 * share).toFixed(1)} %`);

  function put(node, text) {
    if (node.textContent !== text) node.textContent = text;
  }
  function cell(tag, text, className) {
    const node = document.createElement(tag);
    node.textContent = text;
    if (className) node.className = className;
    return node;
  }

  class Past {
    constructor(node, service) {
      this.shadow = node.querySelector(".shadow");
      this.quality = node.querySelector(".quality");
      this.service = service;
      this.chart = null;
      this.quality.addEventListener("toggle", () => this.draw(service.frame, this.from, this.to));
    }

    draw(frame, from, to) {
      [this.from, this.to] = [from, to];
      this.drawShadow(frame.shadow);
      this.drawQuality(frame.quality);
    }

    drawShadow(estimate) {
      this.shadow.hidden = !estimate;
      if (!estimate) return;
      if (estimate.doubt) this.shadow.dataset.tone = "unsure"; else delete this.shadow.dataset.tone;
      put(this.shadow.querySelector("p"), estimate.text);
      const body = this.shadow.querySelector("tbody");
      Object.keys(WORDS).forEach((kind, i) => {
        if (!body.children[i]) {
          const row = document.createElement("tr"), name = cell("th", WORDS[kind]);
          name.scope = "row";
          row.dataset.kind = kind;
          row.append(name, cell("td", "", "num"), cell("td", "", "num"), cell("td", "", "num"));
          body.append(row);
        }
        const account = estimate[kind], [, held, late, wait] = body.children[i].children;
        put(held, figure(account.held_hours));
        put(late, figure(Math.round(account.late)));
        put(wait, `${figure(account.wait_s)} s`);
      });
    }

    drawQuality(quality) {
      this.quality.hidden = !quality;
      if (!quality) return;
      const mark = this.quality.querySelector("summary span");
      put(mark, quality.drift ? quality.drift === "LOSING" ? "loses to last value" : "off its mark" : quality.coverage_ratio === null ? "not scored yet" : `${percent(quality.coverage_ratio)} of the bounds held`);
      if (quality.drift) mark.dataset.tone = "bad"; else delete mark.dataset.tone;
      if (!this.quality.open) return;
      const band = quality.band ? `; by chance ${percent(quality.band[0])} to ${percent(quality.band[1])} of ${Math.floor(quality.scored)} that do not overlap` : "";
      put(this.quality.querySelector("p"), `${quality.text}. Bounds that held: ${percent(quality.coverage_ratio)}, meant ${percent(quality.asked_ratio)}${band}.`);
      this.drawModels(quality.models);
      this.drawChart();
    }

    drawModels(models) {
      const list = this.quality.querySelector("ul");
      while (list.children.length < models.length) list.append(document.createElement("li"));
      models.forEach((model, i) => {
        const item = list.children[i], loss = model.loss_ratio === null ? "" : ` × ${model.loss_ratio.toFixed(2)}`;
        item.dataset.state = model.state;
        put(item, `${model.words}${loss}, ${STATES[model.state]}`);
      });
    }

    drawChart() {
      const host = this.quality.querySelector("[data-plot=quality]"), c = this.service.columns;
      if (!this.chart) {
        this.chart = Charts.make(host, {
          height: () => 120, sync: this.service.frame.workload, axis: true, floorTop: 1.1, legend: (i) => this.say(i),
          series: [{ label: "held", ink: "--ready", width: 1.5 }, { label: "meant to hold", ink: "--order", dash: [3, 3], width: 1 }, { label: "loss over last value", ink: "--queue", width: 1.25 }],
        });
      }
      this.chart.set({ x: c.x, rows: [c.coverage, c.asked, c.loss], from: this.from, to: this.to, now: this.service.frame.now_s, band: null, blind: [] });
      this.say(null);
    }

    say(index) {
      const c = this.service.columns, last = c.x.length - 1;
      if (last < 0) return;
      const i = index === null || index === undefined ? last : Math.min(index, last), at = index === null || index === undefined ? "" : ` at ${clock(c.x[i], true)}`;
      this.service.legend("quality", `Share of bounds, and loss${at}`, [["held", "--ready", "", percent(c.coverage[i])], ["meant to hold", "--order", "dash", percent(c.asked[i])], ["the leading model's loss over last value's", "--queue", "", c.loss[i] === null ? "–" : c.loss[i].toFixed(2)]]);
      this.chart.say(`Bounds that held ${percent(c.coverage[last])}, meant to hold ${percent(c.asked[last])}`);
    }

    close() {
      if (this.chart) this.chart.destroy();
    }
  }
  return { Past };
})();

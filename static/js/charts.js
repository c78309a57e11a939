// Charts over the last 15 minutes that share one cursor and one stretch of time: what is marked in one, all show, until
// the page goes back to now. Unknown values are gaps.
(() => {
  "use strict";
  const WINDOW_S = 15 * 60;
  const HEIGHT_PX = 168;
  const SHORTEST_PX = 4;
  const sync = uPlot.sync("page");
  const charts = [];
  const bar = document.getElementById("chart-stretch");
  let stretch = null;

  const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  // Canvas does not know light-dark(): let an element resolve the token.
  function colour(name) {
    const probe = document.createElement("i");
    probe.style.color = `var(${name})`;
    document.body.append(probe);
    const resolved = getComputedStyle(probe).color;
    probe.remove();
    return resolved;
  }

  const faded = (rgb) => rgb.replace("rgb(", "rgba(").replace(")", ", 0.08)");

  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const seconds = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  const number = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

  const fitting = (ticks) => (ticks[1] - ticks[0] < 60 ? seconds : clock);

  function sloLine(limit) {
    return (chart) => {
      if (!limit) return;
      const y = Math.round(chart.valToPos(limit, "y", true));
      const { left, width, top } = chart.bbox;
      if (y < top) return;
      const pen = chart.ctx;
      pen.save();
      pen.strokeStyle = colour("--warning");
      pen.setLineDash([4, 4]);
      pen.beginPath();
      pen.moveTo(left, y);
      pen.lineTo(left + width, y);
      pen.stroke();
      pen.restore();
    };
  }

  function axis(extra) {
    const grid = { stroke: colour("--border"), width: 1 };
    const font = `11px ${token("--tblr-font-sans-serif")}`;
    return { stroke: colour("--muted"), font, grid, ticks: { show: false }, ...extra };
  }

  function seriesOf(place) {
    return JSON.parse(place.dataset.chart).map((line, index) => ({
      key: line.key,
      label: line.label,
      stroke: colour(`--series-${index + 1}`),
      fill: index === 0 ? faded(colour("--series-1")) : undefined,
      width: 1.5,
      points: { show: false },
    }));
  }

  function options(place, series) {
    const limit = Number(place.dataset.slo) || 0;
    return {
      width: place.clientWidth,
      height: HEIGHT_PX,
      padding: [12, 20, 0, 0],
      legend: { show: false },
      cursor: { sync: { key: sync.key }, points: { size: 6 }, y: false, drag: { x: true, y: false, setScale: false } },
      scales: { y: { range: (_, low, high) => [0, Math.max(high || 0, limit) * 1.15 || 1] } },
      axes: [
        axis({ values: (_, ticks) => ticks.map((at) => fitting(ticks).format(at * 1000)), size: 28, space: 72, grid: { show: false } }),
        axis({ values: (_, ticks) => ticks.map((value) => number.format(value)), size: 48, space: 36 }),
      ],
      series: [{}, ...series],
      hooks: { draw: [sloLine(limit)], setCursor: [(chart) => readOut(place, chart)], setSelect: [mark] },
    };
  }

  function mark(chart) {
    const { left, width } = chart.select;
    if (width < SHORTEST_PX) return;
    show({ min: chart.posToVal(left, "x"), max: chart.posToVal(left + width, "x") });
    chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  }

  function show(asked) {
    stretch = asked;
    bar.hidden = !asked;
    if (asked) sayStretch(asked);
    charts.filter((entry) => entry.data).forEach(scale);
  }

  function sayStretch({ min, max }) {
    const time = (at) => seconds.format(at * 1000);
    bar.querySelector("[data-stretch-text]").textContent = `${time(min)} – ${time(max)}`;
    const link = bar.querySelector("[data-stretch-link]");
    const url = new URL(link.href);
    url.searchParams.set("since", new Date(Math.floor(min) * 1000).toISOString());
    url.searchParams.set("until", new Date(Math.ceil(max) * 1000).toISOString());
    link.href = url;
  }

  function scale(entry) {
    const last = entry.data[0].at(-1) || Date.now() / 1000;
    entry.plot.setScale("x", stretch || { min: last - WINDOW_S, max: last });
  }

  bar.querySelector("[data-stretch-end]").addEventListener("click", () => show(null));

  // The legend above a chart shows the values under the cursor, else the newest.
  function readOut(place, chart) {
    const index = chart.cursor.idx ?? chart.data[0].length - 1;
    const panel = place.closest("[data-chart-panel]");
    panel.querySelectorAll("[data-legend]").forEach((slot, line) => {
      const value = chart.data[line + 1]?.[index];
      slot.textContent = value === null || value === undefined ? "–" : number.format(value);
    });
    const at = panel.querySelector("[data-legend-at]");
    if (at) at.textContent = chart.cursor.idx == null ? "now" : seconds.format(chart.data[0][index] * 1000);
  }

  function build(entry) {
    entry.plot?.destroy();
    const series = seriesOf(entry.place);
    entry.keys = series.map((line) => line.key);
    entry.plot = new uPlot(options(entry.place, series), entry.data || [[], ...series.map(() => [])], entry.place);
  }

  function set(entry, data) {
    entry.data = data;
    entry.plot.batch(() => {
      entry.plot.setData(data, false);
      scale(entry);
    });
    readOut(entry.place, entry.plot);
  }

  for (const place of document.querySelectorAll("[data-chart]")) {
    const entry = { place };
    charts.push(entry);
    build(entry);
    new ResizeObserver(() => entry.plot.setSize({ width: place.clientWidth, height: HEIGHT_PX })).observe(place);
  }

  document.addEventListener("live-history", ({ detail }) => {
    for (const entry of charts) {
      set(entry, [detail.at, ...entry.keys.map((key) => detail.series[key] || detail.at.map(() => null))]);
    }
  });

  document.addEventListener("live-frame", ({ detail }) => {
    for (const entry of charts) {
      if (!entry.data) continue;
      const first = entry.data[0].findIndex((at) => at >= detail.at - WINDOW_S);
      const start = first < 0 ? entry.data[0].length : first;
      const rows = [detail.at, ...entry.keys.map((key) => detail.samples[key] ?? null)];
      set(entry, entry.data.map((column, index) => [...column.slice(start), rows[index]]));
    }
  });

  document.addEventListener("theme-changed", () => charts.forEach((entry) => (build(entry), entry.data && set(entry, entry.data))));
})();

"use strict";
(() => {
  const root = document.documentElement;
  const { specs, tables } = JSON.parse(document.getElementById("data").textContent);
  const rows = {};
  for (const [name, table] of Object.entries(tables)) {
    rows[name] = table.rows.map((row) => Object.fromEntries(table.columns.map((column, i) => [column, row[i]])));
  }
  const views = new Map();

  // Charts.

  function look() {
    const of = (name) => getComputedStyle(root).getPropertyValue(name).trim();
    const words = { labelColor: of("--ink"), titleColor: of("--dim"), labelFont: "system-ui, sans-serif", titleFont: "system-ui, sans-serif", titleFontWeight: 500 };
    return {
      background: null,
      aria: false,
      view: { stroke: null },
      axis: { ...words, labelOverlap: "greedy", labelSeparation: 6, tickCount: 8, gridColor: of("--line"), domainColor: of("--dim"), tickColor: of("--dim"), gridOpacity: 0.6 },
      legend: { ...words, orient: "bottom" },
      range: { category: ["#3d8fd1", "#d98e04", "#2a9d78", "#b565a7", "#8a8f98", "#d1495b", "#5c6bc0", "#9e9d24"] },
    };
  }

  function named(spec) {
    const of = [spec, ...(spec.layer || [])].map((part) => part.data && part.data.name);
    return [...new Set(of.filter(Boolean))];
  }

  function draw(place) {
    const spec = structuredClone(specs[place.dataset.chart]);
    const topic = place.dataset.topic;
    const wanted = (name) => (rows[name] || []).filter((row) => topic === undefined || row.topic === topic);
    // What is on a hidden page gets the width that it will have.
    spec.width = place.clientWidth || document.getElementById("main").clientWidth;
    if (spec.$schema.includes("vega-lite")) {
      if (spec.layer) spec.layer = spec.layer.filter((part) => wanted(part.data.name).length);
      spec.datasets = Object.fromEntries(named(spec).map((name) => [name, wanted(name)]));
      const of = spec.usermeta;
      if (of) spec.height = of.step * new Set(wanted(named(spec)[0]).map((row) => row[of.rows])).size;
      spec.autosize = { type: "fit-x", contains: "padding" };
    } else {
      spec.data[0].values = wanted(spec.data[0].name);
    }
    const before = views.get(place);
    views.set(place, null);
    const within = place.firstElementChild;
    return vegaEmbed(within, spec, { actions: false, renderer: "svg", config: look() }).then((made) => {
      if (before) before.finalize();
      views.set(place, made.view);
      // The place has words for the chart as a whole; its marks have none.
      for (const part of [within, ...within.querySelectorAll("[role]")]) part.removeAttribute("role");
      within.removeAttribute("aria-label");
    });
  }

  // Charts are drawn when they come into view, and, unless there are very many, when there is time.
  const places = [...document.querySelectorAll(".chart")];
  const isNew = (place) => !views.has(place);
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting && isNew(entry.target)) draw(entry.target);
  }, { rootMargin: "400px" });
  places.forEach((place) => seen.observe(place));
  const AHEAD = 200;
  const later = places.slice(0, AHEAD);
  function drawNext() {
    const place = later.find(isNew);
    if (place) draw(place).then(() => setTimeout(drawNext, 10));
    else root.dataset.drawn = "yes";
  }
  addEventListener("load", () => setTimeout(drawNext, 300));
  addEventListener("beforeprint", () => places.filter(isNew).forEach(draw));

  function drawAgain() {
    for (const place of [...views.keys()]) draw(place);
  }
  let waiting = 0;
  addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(drawAgain, 150);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAgain);

  const theme = document.getElementById("theme");
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    drawAgain();
  });

  // A topic has a page of its own.

  function linked(hash) {
    try {
      return document.getElementById(decodeURIComponent(hash));
    } catch {  // not a valid escape
      return null;
    }
  }

  function go() {
    const target = linked(location.hash.slice(1));
    const topic = target && target.closest(".topic");
    for (const other of document.querySelectorAll(".topic.current")) other.classList.remove("current");
    root.classList.toggle("on-topic", Boolean(topic));
    if (topic) topic.classList.add("current");
    for (const link of document.querySelectorAll("nav a")) {
      if (link.hash === location.hash && location.hash) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    if (target) target.scrollIntoView();
  }
  addEventListener("hashchange", go);
  go();

  // Tables are sorted by their headings.

  for (const table of document.querySelectorAll("table")) {
    const body = table.tBodies[0];
    if (body.rows.length < 2) continue;
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = heading.textContent;
      heading.replaceChildren(button);
      button.addEventListener("click", () => {
        const up = heading.getAttribute("aria-sort") === "descending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        heading.setAttribute("aria-sort", up ? "ascending" : "descending");
        const of = (row) => {
          const cell = row.cells[column];
          const value = cell.dataset.v;
          return value === undefined ? cell.textContent : Number.isNaN(Number(value)) ? value : Number(value);
        };
        const sign = up ? 1 : -1;
        const compare = (a, b) => (typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? 1 : -1);
        body.append(...[...body.rows].sort((a, b) => sign * compare(of(a), of(b))));
      });
    });
  }

  // Findings are filtered.

  const form = document.querySelector(".filter");
  if (form) {
    form.hidden = false;
    const find = document.getElementById("find");
    const severity = document.getElementById("severity");
    const groups = [...document.querySelectorAll(".group")];
    const filter = () => {
      const words = find.value.toLowerCase();
      let shown = 0;
      for (const group of groups) {
        const title = group.querySelector("h3").textContent.toLowerCase();
        const right = !severity.value || group.dataset.severity === severity.value;
        let n = 0;
        for (const row of group.querySelectorAll("tbody tr")) {
          const fits = right && (title.includes(words) || row.textContent.toLowerCase().includes(words));
          row.hidden = !fits;
          n += fits;
        }
        group.hidden = !n;
        shown += n;
      }
      document.getElementById("found").textContent = `${shown} shown`;
    };
    form.addEventListener("input", filter);
    form.addEventListener("submit", (event) => event.preventDefault());
    filter();
  }
})();

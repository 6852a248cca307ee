// The timeline: a row for each attempt that a node had at once. The plan is a line below each bar.
import {el, seconds, colour, legend, ticks, hint, ink, fit, short, bytes} from './text.js';

const phases = [['staging', '#b3a429'], ['container start', '#e08a3c'], ['running', '#3b76af'], ['suspended', '#c9ced4']];
const outcomes = {ok: '#4e9a5a', '': '#3b76af', preempted: '#8a6fb3'};

export function timeline(run, select) {
  const a = run.attempt, left = 110, top = 22;
  const lanes = run.nodes.reduce((n, x) => n + Math.max(1, x.lanes), 0);
  const height = Math.max(3, Math.min(18, Math.floor(620 / Math.max(1, lanes))));
  const first = [];
  let row = 0;
  for (const n of run.nodes) { first.push(row); row += Math.max(1, n.lanes); }
  const byLane = Array.from({length: lanes}, () => []);
  for (let i = 0; i < run.n; i++) byLane[first[a.node[i]] + a.lane[i]].push(i);
  const aways = new Map();
  run.away.attempt.forEach((i, k) => { if (!aways.has(i)) aways.set(i, []); aways.get(i).push(k); });

  const whole = [run.workflows.length ? Math.min(...run.workflows.map(w => w.arrived)) : 0, Math.max(run.end, 1)];
  let from = whole[0], to = whole[1], by = 'type', found = null, chosen = -1;
  const canvas = el('canvas', {tabindex: 0, role: 'img', 'aria-label': `Timeline of ${run.n} attempts on ${run.nodes.length} nodes. ` +
    'Arrow keys move, plus and minus zoom, 0 shows all, n and p go to the next and previous attempt. The table of tasks has the same data.'});
  const detail = el('div', {class: 'detail', 'aria-live': 'polite', hidden: true});
  const key = el('div');
  const colourOf = i => by === 'type' ? colour(run.kind(i)) : by === 'outcome' ? outcomes[run.outcomes[a.outcome[i]]] || '#c0504d' : phases[2][1];
  const at = t => left + (t - from) * (canvas.clientWidth - left) / (to - from);
  const y = i => top + (first[a.node[i]] + a.lane[i]) * height;

  function draw() {
    const [x, width] = fit(canvas, top + lanes * height + 4);
    const scale = (width - left) / (to - from), bar = Math.max(1, height - (height > 6 ? 3 : height > 3 ? 1 : 0));
    x.fillStyle = ink('bg');
    x.fillRect(0, 0, width, canvas.height);
    x.strokeStyle = ink('line');
    x.fillStyle = ink('soft');
    for (const t of ticks(run.secs(from), run.secs(to), width / 110)) {
      const px = Math.round(at(t / run.scale)) + 0.5;
      if (px < left) continue;
      x.beginPath(); x.moveTo(px, top - 6); x.lineTo(px, top + lanes * height); x.stroke();
      x.fillText(seconds(t), px + 3, 13);
    }
    run.nodes.forEach((n, k) => {
      const py = top + first[k] * height;
      x.strokeStyle = ink('soft');
      x.beginPath(); x.moveTo(0, py - 0.5); x.lineTo(width, py - 0.5); x.stroke();
      x.fillStyle = ink('ink');
      if (Math.max(1, n.lanes) * height >= 11) x.fillText(short(n.name, 15), 4, py + 11);
    });
    x.save();
    x.beginPath(); x.rect(left, 0, width - left, top + lanes * height + 4); x.clip();
    let drawn = 0;
    for (const lane of byLane) {
      let last = -1;
      for (const i of lane) {
        const p = at(a.queued[i]), end = at(run.stop[i]);
        if (end < left || p > width || end < last + 0.5) continue;
        last = Math.max(end, p + 0.5);
        drawn++;
        const begin = at(run.start[i]), py = y(i);
        x.globalAlpha = found && !found.has(i) ? 0.15 : 1;
        if (by === 'phase') {
          const staged = at(a.queued[i] + a.staging[i]);
          x.fillStyle = phases[0][1]; x.fillRect(p, py, staged - p, bar);
          x.fillStyle = phases[1][1]; x.fillRect(staged, py, begin - staged, bar);
        } else if (begin - p > 0.5) {
          x.fillStyle = colourOf(i); x.globalAlpha *= 0.4; x.fillRect(p, py, begin - p, bar); x.globalAlpha = found && !found.has(i) ? 0.15 : 1;
        }
        x.fillStyle = colourOf(i);
        x.fillRect(begin, py, Math.max(0.5, end - begin), bar);
        for (const k of aways.get(i) || []) {
          x.fillStyle = phases[3][1];
          x.fillRect(at(run.away.since[k]), py, at(run.away.until[k]) - at(run.away.since[k]), bar);
        }
        if (height > 6 && a.over[i] && (end - p) > 2) {
          x.fillStyle = ink('ink');
          x.fillRect(p, py + bar, at(run.stop[i] - a.over[i]) - p, 1.5);
        }
        if (run.critical.has(i) && height > 4) { x.strokeStyle = ink('mark'); x.lineWidth = 1.5; x.strokeRect(p, py, Math.max(1, end - p), bar); x.lineWidth = 1; }
        if (height >= 14 && end - begin > 40) { x.fillStyle = '#fff'; x.fillText(short(run.names[a.task[i]], Math.floor((end - begin) / 7)), Math.max(begin, left) + 3, py + 12); }
        if (i === chosen) { x.strokeStyle = ink('ink'); x.lineWidth = 2.5; x.strokeRect(p, py, Math.max(2, end - p), bar); x.lineWidth = 1; }
      }
    }
    x.restore();
    canvas.dataset.drawn = drawn;
    key.replaceChildren(legend(by === 'type' ? run.kinds.slice(0, 40).map((k, i) => [k, colour(i)]) :
      by === 'phase' ? phases : run.outcomes.map(o => [o || 'under way', outcomes[o] || '#c0504d'])));
  }

  function under(e) {
    const r = canvas.getBoundingClientRect(), lane = Math.floor((e.clientY - r.top - top) / height);
    const t = from + (e.clientX - r.left - left) * (to - from) / (canvas.clientWidth - left), slack = 3 * (to - from) / canvas.clientWidth;
    if (lane < 0 || lane >= lanes || e.clientX - r.left < left) return -1;
    const list = byLane[lane];
    let lo = 0, hi = list.length;
    while (lo < hi) { const m = (lo + hi) >> 1; if (a.queued[list[m]] <= t + slack) lo = m + 1; else hi = m; }
    const i = lo > 0 ? list[lo - 1] : -1;
    return i >= 0 && run.stop[i] + slack >= t ? i : -1;
  }

  const brief = i => `${run.fullName(i)}\n${run.kinds[run.kind(i)]} on ${run.nodes[a.node[i]].name}: ${run.outcome(i)}\n` +
    `ordered at ${seconds(run.secs(a.queued[i]))}, waited ${seconds(run.secs(a.wait[i]))}, ran ${seconds(run.secs(a.run[i]))}`;

  function choose(i, scroll) {
    chosen = i;
    detail.hidden = i < 0;
    if (i >= 0) {
      const fact = (k, v) => v === '' ? [] : [el('dt', {}, k), el('dd', {}, v)];
      const s = u => seconds(run.secs(u));
      detail.replaceChildren(el('b', {}, run.fullName(i)), el('dl', {},
        ...fact('type', run.kinds[run.kind(i)]), ...fact('node', run.nodes[a.node[i]].name), ...fact('try', String(a.try[i])), ...fact('outcome', run.outcome(i)),
        ...fact('waited', s(a.wait[i]) + ' from when it was ready'), ...fact('ordered', 'at ' + s(a.queued[i])), ...fact('staging', s(a.staging[i])),
        ...fact('container start', s(a.begin[i])), ...fact('ran', s(a.run[i])),
        ...fact('ended', run.knows(i, 'end') ? `at ${s(run.stop[i])}` + (a.over[i] ? `, ${s(Math.abs(a.over[i]))} ${a.over[i] > 0 ? 'later' : 'earlier'} than planned` : ', as planned') : 'not yet'),
        ...fact('asked', `${a.cores[i] / 1000} cores, ${bytes(a.memory[i] * 1000)}`),
        ...fact('used', [run.knows(i, 'cpu') && `${s(a.cpu[i])} of CPU time`, run.knows(i, 'memory') && `${bytes(a.peak[i] * 1000)} at most`,
          run.knows(i, 'disk') && `${bytes(a.read[i] * 1000)} read, ${bytes(a.written[i] * 1000)} written`].filter(Boolean).join(', ')),
        ...fact('more', `gantry explain ${run.name} ${run.fullName(i)}`)));
      if (scroll && (run.stop[i] < from || a.queued[i] > to)) {
        const half = (to - from) / 2, middle = (a.queued[i] + run.stop[i]) / 2;
        move(middle - half, middle + half);
        return;
      }
    }
    draw();
  }

  function move(f, t) {
    const least = (whole[1] - whole[0]) / 1e5;
    if (t - f < least) { const m = (f + t) / 2; f = m - least / 2; t = m + least / 2; }
    const span = Math.min(t - f, whole[1] - whole[0]);
    from = Math.max(whole[0], Math.min(f, whole[1] - span));
    to = from + span;
    draw();
  }
  const zoom = (factor, center = (from + to) / 2) => move(center - (center - from) * factor, center + (to - center) * factor);

  canvas.addEventListener('mousemove', e => {
    const i = under(e);
    hint(e, i >= 0 ? brief(i) : '');
  });
  canvas.addEventListener('mouseleave', e => hint(e, ''));
  let drag = null;
  canvas.addEventListener('mousedown', e => { drag = e.clientX; });
  canvas.addEventListener('mouseup', e => {
    const r = canvas.getBoundingClientRect(), time = px => from + (px - r.left - left) * (to - from) / (canvas.clientWidth - left);
    if (drag !== null && Math.abs(e.clientX - drag) > 6) move(Math.min(time(drag), time(e.clientX)), Math.max(time(drag), time(e.clientX)));
    else choose(under(e));
    drag = null;
  });
  canvas.addEventListener('wheel', e => {
    if (!e.ctrlKey && !e.shiftKey) return; // the page scrolls
    e.preventDefault();
    const r = canvas.getBoundingClientRect();
    zoom(e.deltaY + e.deltaX > 0 ? 1.25 : 0.8, from + (e.clientX - r.left - left) * (to - from) / (canvas.clientWidth - left));
  }, {passive: false});
  canvas.addEventListener('keydown', e => {
    const step = (to - from) / 8;
    const act = {ArrowLeft: () => move(from - step, to - step), ArrowRight: () => move(from + step, to + step), '+': () => zoom(0.5), '=': () => zoom(0.5),
      '-': () => zoom(2), '0': () => move(...whole), n: () => choose(Math.min(run.n - 1, chosen + 1), true), p: () => choose(Math.max(0, chosen - 1), true),
      Escape: () => choose(-1)}[e.key];
    if (act) { e.preventDefault(); act(); }
  });
  const search = el('input', {type: 'search', placeholder: 'find tasks', 'aria-label': 'Find tasks in the timeline', on: {input: () => {
    const text = search.value.toLowerCase();
    found = null;
    if (text) {
      found = new Set();
      for (let i = 0; i < run.n; i++) if (run.fullName(i).toLowerCase().includes(text) || run.kinds[run.kind(i)].toLowerCase().includes(text)) found.add(i);
    }
    count.textContent = found ? `${found.size} found` : '';
    draw();
  }}});
  const count = el('span', {role: 'status'});
  const colours = el('select', {'aria-label': 'Colour by', on: {change: () => { by = colours.value; draw(); }}},
    ...['type', 'outcome', 'phase'].map(v => el('option', {value: v}, 'by ' + v)));
  const button = (text, label, f) => el('button', {type: 'button', 'aria-label': label, on: {click: f}}, text);
  select.choose = i => choose(i, true);
  addEventListener('resize', draw);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
  return {draw, node: el('section', {class: 'timeline', 'aria-label': 'Timeline'}, el('h2', {}, 'Timeline'),
    el('div', {class: 'tools'}, colours, search, count, button('+', 'Zoom in', () => zoom(0.5)), button('−', 'Zoom out', () => zoom(2)), button('all', 'Show all', () => move(...whole))),
    el('figure', {}, canvas, el('figcaption', {}, 'Each bar is an attempt: pale while it starts, full while it runs; outlined if it is on the critical path. ' +
      'The thin line below ends where the plan had its end. Drag to zoom in, Ctrl and wheel to zoom, click for details.')), key, detail)};
}

// The timeline: a row for each slot of each node, with the planned ends of attempts.
import {el, seconds, colour, outcomes, legend, ticks, clock, hint, ink, fit, short, bytes, button, choice, plural, redraws} from './text.js';
import {detail} from './detail.js';

const phases = [['staging', '#b3a429'], ['container start', '#e39139'], ['running', '#3b78b5']];
const bad = outcomes.failed, asleep = '#aab3bc', least = 4; // pixels of an attempt that failed
const left = 132, top = 24, strip = 7;

export function timeline(run, page) {
  let rows, lanes, height, bottom, byLane, span;
  let from, to, by = run.byFlow ? 'workflow' : 'type', text = '', found = null, chosen = -1, chosenTask = null;
  const canvas = el('canvas', {tabindex: 0, role: 'img'});
  const info = el('div', {class: 'detail', 'aria-live': 'polite', hidden: true});
  const key = el('div'), count = el('span', {role: 'status'});

  // arrange gives each node its rows: one for copies of files, if there were any, and one for each slot.
  function arrange() {
    const whole = span === undefined || from === span[0] && to === span[1];
    span = [page.span ? page.span[0] : run.begin, Math.max(page.span ? page.span[1] : run.end, run.begin + 1)];
    if (whole) [from, to] = span;
    lanes = run.nodes.reduce((n, x) => n + Math.max(1, x.lanes), 0);
    height = Math.max(3, Math.min(26, Math.floor(620 / Math.max(1, lanes))));
    rows = [];
    let y = top;
    const moved = new Map();
    for (const m of run.copies || []) { if (!moved.has(m.node)) moved.set(m.node, []); moved.get(m.node).push(m); }
    run.nodes.forEach((n, k) => {
      const copies = moved.get(k) || [];
      rows.push({node: n, y, copies, at: y + (copies.length ? strip : 0)});
      y += (copies.length ? strip : 0) + Math.max(1, n.lanes) * height + 3;
    });
    bottom = y;
    byLane = run.nodes.map(n => Array.from({length: Math.max(1, n.lanes)}, () => []));
    for (let i = 0; i < run.n; i++) if (run.attempt.node[i] >= 0) byLane[run.attempt.node[i]][run.attempt.lane[i]].push(i);
    canvas.setAttribute('aria-label', `Timeline of ${plural(run.n, 'attempt')} on ${plural(run.nodes.length, 'node')}. ` +
      'Arrow keys move, plus and minus zoom, 0 shows all, n and p go to the next and previous attempt. The table of tasks has the same data.');
    if (chosenTask !== null) chosen = (run.attemptsOf.get(chosenTask[0]) || [])[chosenTask[1]] ?? -1;
    seek();
  }

  function seek() {
    found = null;
    if (text) {
      found = new Set();
      for (let i = 0; i < run.n; i++) if (run.search[i].includes(text)) found.add(i);
    }
    count.textContent = found ? `${found.size} found` : '';
  }

  const colourOf = i => run.fails(i) ? outcomes[run.outcome(i)] || bad : by === 'type' ? run.hue(run.kind(i)) : by === 'workflow' ? run.flow(i) : by === 'outcome' ? outcomes[run.outcome(i)] : phases[2][1];
  let wide = 1000; // of the canvas, as it was drawn last
  const at = t => left + (t - from) * (wide - left) / (to - from);
  const timeAt = px => from + (px - left) * (to - from) / (canvas.clientWidth - left);
  const y = i => rows[run.attempt.node[i]].at + run.attempt.lane[i] * height;
  const thick = () => Math.max(1, height - (height > 9 ? 4 : height > 5 ? 2 : height > 3 ? 1 : 0));

  function axis(x, width) {
    const marks = ticks(run.secs(from), run.secs(to), (width - left) / 95), write = clock(run.secs(to - from) < 1 ? run.secs(to - from) : run.secs(to));
    x.strokeStyle = ink('line');
    x.fillStyle = ink('soft');
    x.textAlign = 'center';
    for (const t of marks) {
      const px = Math.round(at(t / run.scale)) + 0.5;
      if (px < left) continue;
      x.beginPath(); x.moveTo(px, top - 5); x.lineTo(px, bottom - 3); x.stroke();
      if (px < width - 24) x.fillText(write(t), Math.max(px, left + 16), 13);
    }
    x.textAlign = 'left';
    rows.forEach((r, k) => {
      x.strokeStyle = ink('line');
      if (k) { x.beginPath(); x.moveTo(0, r.y - 1.5); x.lineTo(width, r.y - 1.5); x.stroke(); }
      const tall = Math.max(1, r.node.lanes) * height;
      x.fillStyle = ink('ink');
      if (tall >= 10 || k % Math.ceil(12 / (tall + 3)) === 0) x.fillText(short(r.node.name, 18), 4, r.at + Math.min(tall / 2 + 4, 13));
      if (tall >= 28) { x.fillStyle = ink('soft'); x.font = '11px system-ui, sans-serif'; x.fillText(`${+(r.node.millicores / 1000).toFixed(2)} cores` + (r.node.speed !== 1 ? `, ×${+r.node.speed.toFixed(2)}` : ''), 4, r.at + 27); x.font = '12px system-ui, sans-serif'; }
    });
  }

  function bar(x, i, p, end) {
    const a = run.attempt, begin = at(run.start[i]), py = y(i), tall = thick();
    const alpha = found && !found.has(i) ? 0.15 : 1;
    x.globalAlpha = alpha;
    if (by === 'phase') {
      const staged = at(a.queued[i] + a.staging[i]);
      x.fillStyle = phases[0][1]; x.fillRect(p, py, staged - p, tall);
      x.fillStyle = phases[1][1]; x.fillRect(staged, py, begin - staged, tall);
    } else if (begin - p > 0.5) {
      x.fillStyle = colourOf(i); x.globalAlpha = alpha * 0.4; x.fillRect(p, py, begin - p, tall); x.globalAlpha = alpha;
    }
    x.fillStyle = colourOf(i);
    x.fillRect(begin, py, Math.max(run.fails(i) ? least : 0.5, end - begin), tall);
    if (run.awayOf.size) for (const k of run.awayOf.get(i) || []) {
      const s = at(run.away.since[k]), e = Math.min(end, at(run.away.until[k]));
      if (e <= s) continue;
      x.fillStyle = asleep; x.fillRect(s, py, e - s, tall);
      x.strokeStyle = '#5d6873';
      x.beginPath();
      for (let q = s; q < e - 2; q += 6) { x.moveTo(q, py + tall); x.lineTo(Math.min(e, q + tall), py + tall - Math.min(tall, e - q)); }
      x.stroke();
    }
    if (height > 7 && run.knows(i, 'plan') && end - p > 2) {
      x.fillStyle = ink('ink');
      const planned = at(run.stop[i] - a.over[i]);
      x.fillRect(p, py + tall + 0.5, planned - p, 1.2);
      x.fillRect(planned - 0.6, py + tall - 2, 1.2, 4);
    }
    if (a.try[i] > 1 && height > 5 && end - p > 3) { // a retry has a notch
      x.fillStyle = ink('ink');
      x.beginPath(); x.moveTo(p, py); x.lineTo(p + Math.min(7, tall / 1.5), py); x.lineTo(p, py + Math.min(7, tall / 1.5)); x.fill();
    }
    if (run.critical.has(i) && height > 4) { x.strokeStyle = ink('mark'); x.lineWidth = 1.6; x.strokeRect(p, py, Math.max(1, end - p), tall); x.lineWidth = 1; }
    if (height >= 14 && end - begin > 34) {
      x.fillStyle = '#fff';
      x.font = '11px system-ui, sans-serif';
      x.fillText(short(run.labels[a.task[i]], Math.floor((Math.min(end, wide) - Math.max(begin, left) - 4) / 6.2)), Math.max(begin, left) + 3, py + tall / 2 + 4);
      x.font = '12px system-ui, sans-serif';
    }
    if (i === chosen) { x.globalAlpha = 1; x.strokeStyle = ink('ink'); x.lineWidth = 2.5; x.strokeRect(p, py, Math.max(2, end - p), tall); x.lineWidth = 1; }
  }

  // links joins the tries of tasks.
  function links(x) {
    x.globalAlpha = 0.8;
    x.strokeStyle = ink('soft');
    x.setLineDash([3, 2]);
    let drawn = 0;
    for (const list of run.attemptsOf.values()) {
      for (let k = 1; k < list.length && drawn < 2000; k++) {
        const [i, j] = [list[k - 1], list[k]], p = at(run.stop[i]), q = at(run.attempt.queued[j]);
        if (q < left || p > wide || run.attempt.node[i] < 0) continue;
        drawn++;
        x.beginPath(); x.moveTo(p, y(i) + thick() / 2); x.bezierCurveTo(p + 12, y(i) + thick() / 2, q - 12, y(j) + thick() / 2, q, y(j) + thick() / 2); x.stroke();
      }
    }
    x.setLineDash([]);
    x.globalAlpha = 1;
  }

  function extras(x, width) {
    for (const r of rows) {
      for (const m of r.copies) {
        const p = at(m.since), e = at(m.until ?? run.end);
        if (e < left || p > width) continue;
        x.fillStyle = '#2f9fae';
        x.fillRect(p, r.y + 1, Math.max(1, e - p), strip - 3);
      }
    }
    for (const c of run.changes || []) {
      const r = rows[c.node], next = run.changes.find(d => d.node === c.node && d.at > c.at);
      const p = at(c.at), e = at(next ? next.at : run.end), tall = Math.max(1, r.node.lanes) * height;
      if (c.millicores === 0) {
        x.fillStyle = bad; x.globalAlpha = 0.22; x.fillRect(p, r.at, e - p, tall); x.globalAlpha = 1;
      }
      x.fillStyle = bad; x.fillRect(p - 1, r.at - 2, 2.5, tall + 4);
    }
  }

  function draw() {
    if (!rows) return; // nothing to show so far
    const [x, width] = fit(canvas, bottom + 2);
    wide = width;
    axis(x, width);
    x.save();
    x.beginPath(); x.rect(left, 0, width - left, bottom + 2); x.clip();
    let drawn = 0;
    const failed = []; // above all others
    for (const node of byLane) {
      for (const lane of node) {
        let last = -1;
        for (const i of lane) {
          const p = at(run.attempt.queued[i]), end = at(run.stop[i]);
          if (end < left || p > width || end < last + 0.5 && !run.fails(i)) continue;
          if (run.fails(i) && end < last + least) { failed.push([i, p, end]); drawn++; continue; }
          last = Math.max(end, p + 0.5);
          drawn++;
          bar(x, i, p, end);
        }
      }
    }
    for (const [i, p, end] of failed) bar(x, i, p, end);
    links(x);
    extras(x, width);
    x.restore();
    x.globalAlpha = 1;
    canvas.dataset.drawn = drawn;
    const marks = [];
    if (by !== 'outcome') for (const o of new Set(run.failures.map(f => f.outcome))) marks.push([o, outcomes[o] || bad]);
    if (run.critical.size) marks.push(['on the critical path', ink('mark'), 'frame']);
    if (run.away.attempt.length) marks.push(['suspended', asleep, 'striped']);
    if (run.attempt.try.some(t => t > 1)) marks.push(['tried again', ink('ink'), 'notch']);
    if ((run.copies || []).length) marks.push(['files copied to the node', '#2f9fae', 'thin']);
    if ((run.changes || []).length) marks.push(['node changed or lost', bad]);
    key.replaceChildren(legend([...(by === 'type' ? run.kinds.slice(0, 30).map((k, i) => [k, run.hue(i)]) : by === 'workflow' ? run.workflows.slice(0, 30).map((w, i) => [w.name, colour(i)]) :
      by === 'phase' ? phases : [...new Set(run.outcomes.map(o => o || 'under way'))].filter(o => o !== 'under way' || run.state === 'running').map(o => [o, outcomes[o] || bad])), ...marks]),
    ...(by === 'type' && run.kinds.length > 30 ? [el('p', {class: 'note'}, `and ${run.kinds.length - 30} more types`)] : []),
    ...(by === 'workflow' && run.workflows.length > 30 ? [el('p', {class: 'note'}, `and ${run.workflows.length - 30} more workflows`)] : []));
  }

  const position = e => { const r = canvas.getBoundingClientRect(); return [e.clientX - r.left, e.clientY - r.top]; };

  function under(e) {
    const [px, py] = position(e), k = rows.findIndex(r => py >= r.y && py < r.at + Math.max(1, r.node.lanes) * height);
    if (k < 0 || px < left) return {};
    const t = timeAt(px), slack = 3 * (to - from) / canvas.clientWidth, r = rows[k];
    if (py < r.at) return {copy: r.copies.find(m => m.since - slack <= t && (m.until ?? run.end) + slack >= t)};
    const lane = Math.floor((py - r.at) / height);
    const list = byLane[k][lane] || [];
    let lo = 0, hi = list.length;
    while (lo < hi) { const m = (lo + hi) >> 1; if (run.attempt.queued[list[m]] <= t + slack) lo = m + 1; else hi = m; }
    const i = lo > 0 ? list[lo - 1] : -1;
    return i >= 0 && run.stop[i] + slack >= t ? {attempt: i} : {};
  }

  const brief = i => `${run.label(run.attempt.task[i])}${run.attempt.try[i] > 1 ? ` (try ${run.attempt.try[i]})` : ''}\n${run.kindName(i)} on ${run.nodeName(i)}: ${run.outcome(i)}\n` +
    `ordered at ${seconds(run.secs(run.attempt.queued[i]))}, waited ${seconds(run.secs(run.attempt.wait[i]))}, ran ${seconds(run.secs(run.attempt.run[i]))}`;

  function fill() {
    info.hidden = !chosenTask;
    if (chosenTask) info.replaceChildren(button('×', 'Close the details', () => choose(-1), {class: 'close'}), ...detail(run, chosenTask[0], chosen));
  }

  // choose shows an attempt, or a task that has none.
  function choose(i, scroll, t) {
    chosen = i;
    chosenTask = i < 0 ? t === undefined ? null : [t, -1] : [run.attempt.task[i], run.attemptsOf.get(run.attempt.task[i]).indexOf(i)];
    fill();
    if (i >= 0 && scroll && (run.stop[i] < from || run.attempt.queued[i] > to)) {
      const half = (to - from) / 2, middle = (run.attempt.queued[i] + run.stop[i]) / 2;
      move(middle - half, middle + half);
      return;
    }
    draw();
  }

  function move(f, t) {
    const least = (span[1] - span[0]) / 1e5;
    if (t - f < least) { const m = (f + t) / 2; f = m - least / 2; t = m + least / 2; }
    const wide = Math.min(t - f, span[1] - span[0]);
    from = Math.max(span[0], Math.min(f, span[1] - wide));
    to = from + wide;
    draw();
  }
  const zoom = (factor, center = (from + to) / 2) => move(center - (center - from) * factor, center + (to - center) * factor);

  canvas.addEventListener('mousemove', e => {
    const x = under(e), s = u => seconds(run.secs(u));
    hint(e, x.attempt !== undefined ? brief(x.attempt) : x.copy ? `${x.copy.file}\ncopied from ${run.nodes[x.copy.from]?.name || 'another node'}, ${s(x.copy.since)} to ${x.copy.until === null ? 'the end' : s(x.copy.until)}` : '');
  });
  canvas.addEventListener('mouseleave', e => hint(e, ''));
  let drag = null;
  canvas.addEventListener('pointerdown', e => { drag = position(e)[0]; });
  canvas.addEventListener('pointerup', e => {
    const px = position(e)[0];
    if (drag !== null && Math.abs(px - drag) > 6) move(Math.min(timeAt(drag), timeAt(px)), Math.max(timeAt(drag), timeAt(px)));
    else choose(under(e).attempt ?? -1);
    drag = null;
  });
  canvas.addEventListener('wheel', e => {
    if (!e.ctrlKey && !e.shiftKey) return; // the page scrolls
    e.preventDefault();
    zoom(e.deltaY + e.deltaX > 0 ? 1.25 : 0.8, timeAt(position(e)[0]));
  }, {passive: false});
  canvas.addEventListener('keydown', e => {
    const step = (to - from) / 8;
    const act = {ArrowLeft: () => move(from - step, to - step), ArrowRight: () => move(from + step, to + step), '+': () => zoom(0.5), '=': () => zoom(0.5),
      '-': () => zoom(2), '0': () => move(...span), n: () => choose(Math.min(run.n - 1, chosen + 1), true), p: () => choose(Math.max(0, chosen - 1), true),
      Escape: () => choose(-1)}[e.key];
    if (act && !e.ctrlKey && !e.metaKey) { e.preventDefault(); act(); }
  });
  const search = el('input', {type: 'search', placeholder: 'find tasks', 'aria-label': 'Find tasks in the timeline', on: {input: () => {
    text = search.value.toLowerCase();
    seek();
    draw();
  }}});
  run.choose = (i, t) => { choose(i, true, t); canvas.scrollIntoView({block: 'nearest'}); };
  redraws(draw);
  const node = el('div', {class: 'timeline'},
    el('div', {class: 'tools'}, choice('colour', [...(run.byFlow ? [['workflow', 'by workflow'], ['type', 'by type']] : [['type', 'by type'], ['workflow', 'by workflow']]), ['outcome', 'by outcome'], ['phase', 'by phase']], v => { by = v; draw(); }), search, count,
      button('+', 'Zoom in', () => zoom(0.5)), button('−', 'Zoom out', () => zoom(2)), button('all', 'Show all', () => move(...span))),
    el('figure', {}, canvas), key, el('p', {class: 'note screen'}, 'A bar is an attempt: pale until its program runs. The line below it ends where the plan had its end. ' +
      'Drag to zoom, Ctrl and wheel to zoom, click for all that is known of a task.'), info);
  return {node, refresh() { arrange(); fill(); draw(); }};
}

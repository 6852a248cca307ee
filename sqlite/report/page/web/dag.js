// The graph of dependencies in layers; above some hundred tasks a node stands for all tasks of a type, and opens.
import {el, svg, short, outcomes, plural, choice, legend, ink, redraws} from './text.js';
import {states} from './data.js';

const most = 250, mostOpen = 300;

export function dag(run) {
  let only = -1;
  const open = new Set(), body = el('div', {class: 'chart'}), tools = el('div', {class: 'tools'}), note = el('p', {class: 'note'}), key = el('div');
  const frame = el('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Graph of dependencies', style: {'max-height': 'max(620px, 85vh)'}}, body);

  function members() {
    const out = [];
    for (let t = 0; t < run.names.length; t++) if (states[run.task.state[t]] !== 'continued' && (only < 0 || run.task.workflow[t] === only)) out.push(t);
    return out;
  }

  // depths are the longest paths to tasks. Edges are in the order of children, most of them after their parents.
  function depths() {
    const [child, parent] = run.edges, depth = new Int32Array(run.names.length);
    for (let again = true, round = 0; again && round < 100; round++) {
      again = false;
      for (let e = 0; e < child.length; e++) {
        const d = depth[parent[e]] + 1;
        if (d > depth[child[e]]) { depth[child[e]] = d; again ||= parent[e] > child[e]; }
      }
    }
    return depth;
  }

  function draw() {
    const tasks = members(), grouped = tasks.length > most, depth = depths(), seen = new Map();
    const critical = new Set([...run.critical].map(i => run.attempt.task[i]));
    const of = new Array(run.names.length), groups = run.kinds.map((_, k) => 'k' + k);
    for (const t of tasks) {
      const k = run.task.kind[t], nth = (seen.get(k) || 0) + 1;
      seen.set(k, nth);
      of[t] = grouped && !(open.has(k) && nth <= mostOpen) ? groups[k] : 't' + t;
    }
    const nodes = new Map(), edges = new Map();
    for (const t of tasks) {
      const id = of[t], single = id[0] === 't';
      if (!nodes.has(id)) nodes.set(id, {id, task: t, kind: run.task.kind[t], single, count: 0, bad: 0, layer: Infinity, parents: new Set(), critical: false, name: single ? run.labels[t] : run.kinds[run.task.kind[t]]});
      const n = nodes.get(id);
      n.count++;
      n.bad += ['failed', 'skipped'].includes(states[run.task.state[t]]);
      n.layer = Math.min(n.layer, depth[t]);
      n.critical ||= critical.has(t);
    }
    for (let k = 0; k < run.edges[0].length; k++) {
      const c = run.edges[0][k], p = run.edges[1][k];
      if (!of[c] || !of[p] || of[p] === of[c]) continue;
      const id = of[p] + ' ' + of[c];
      let e = edges.get(id);
      if (!e) {
        edges.set(id, e = {p: of[p], c: of[c], count: 0, critical: false});
        nodes.get(of[c]).parents.add(of[p]);
      }
      e.count++;
    }
    for (const [p, c] of run.path) { const e = edges.get(of[p] + ' ' + of[c]); if (e) e.critical = true; }
    const layers = new Map();
    for (const n of nodes.values()) { if (!layers.has(n.layer)) layers.set(n.layer, []); layers.get(n.layer).push(n); }
    const rows = [...layers.keys()].sort((x, y) => x - y).map(l => layers.get(l)), widest = Math.max(1, ...rows.map(r => r.length));
    const labels = widest <= 26, w = labels ? Math.max(52, Math.min(132, 1180 / widest - 10)) : 26, width = Math.max(900, widest * (w + 10) + 20), gap = labels ? 66 : 52;
    rows.forEach((r, y) => {
      const middle = n => n.parents.size ? [...n.parents].reduce((s, p) => s + (nodes.get(p).x || 0), 0) / n.parents.size : 0;
      if (y > 0) r.sort((m, n) => middle(m) - middle(n) || m.kind - n.kind || m.task - n.task);
      r.forEach((n, i) => { n.x = width / 2 + (i - (r.length - 1) / 2) * Math.min(w + 46, width / r.length); n.y = 24 + y * gap; });
    });
    const hot = ink('mark');
    const g = svg('svg', {viewBox: `0 0 ${width} ${rows.length * gap}`, role: 'group', 'aria-label': `Graph of ${plural(tasks.length, 'task')} and ${plural(edges.size, 'edge')} in ${plural(rows.length, 'layer')}`});
    for (const e of [...edges.values()].sort((x, y) => x.critical - y.critical)) {
      const m = nodes.get(e.p), n = nodes.get(e.c), down = n.y > m.y, y1 = m.y + (down ? 12 : -12), y2 = n.y + (down ? -12 : 12), bend = (y1 + y2) / 2;
      g.append(svg('path', {d: `M${m.x} ${y1}C${m.x} ${bend} ${n.x} ${bend} ${n.x} ${y2}`, fill: 'none', stroke: e.critical ? hot : 'currentColor', 'stroke-width': e.critical ? 2.4 : Math.min(2.5, 0.8 + Math.log10(e.count) / 2), 'stroke-opacity': e.critical ? 1 : 0.28}));
    }
    const act = n => {
      if (n.single) { run.choose(run.attemptsOf.get(n.task)?.at(-1) ?? -1, n.task); return; }
      open.add(n.kind);
      draw();
    };
    for (const n of nodes.values()) {
      const about = n.single ? `${n.name} (${run.kinds[n.kind]}), ${run.stateOf(n.task)}` : `${n.name}: ${plural(n.count, 'task')}${n.bad ? `, ${n.bad} failed or skipped` : ''}, closed; open it to see them`;
      const text = labels || !n.single;
      g.append(svg('g', {class: 'node', tabindex: 0, role: 'button', 'aria-label': about + (n.critical ? ', on the critical path' : ''), 'aria-expanded': n.single ? null : 'false',
        on: {click: () => act(n), keydown: e => { if (e.key === 'Enter' || e.key === ' ') { e.preventDefault(); act(n); } }}}, svg('title', {}, about),
        !n.single && svg('rect', {x: n.x - w / 2 + 4, y: n.y - 9, width: w, height: 24, rx: 6, fill: run.hue(n.kind), 'fill-opacity': 0.4}),
        svg('rect', {x: n.x - w / 2, y: n.y - 12, width: w, height: 24, rx: 6, fill: n.single && outcomes[run.stateOf(n.task)] || run.hue(n.kind), 'fill-opacity': n.single && run.stateOf(n.task) === 'waiting' ? 0.55 : 1, stroke: n.critical ? hot : n.bad && !n.single ? outcomes.failed : 'none', 'stroke-width': n.critical ? 3 : 2}),
        text && svg('text', {x: n.x, y: n.y + 4, 'text-anchor': 'middle', 'font-size': 11, fill: '#fff'}, n.single ? short(n.name, Math.floor(w / 6.3)) : short(n.name, Math.floor(w / 6.3) - 2 - String(n.count).length) + ` ×${n.count}`)));
    }
    body.style.minWidth = Math.min(width, 6000) + 'px';
    g.style.maxWidth = width + 'px';
    body.replaceChildren(g);
    note.textContent = (grouped ? `${plural(tasks.length, 'task')} of ${plural(seen.size, 'type')}: a node stands for the tasks of a type; click on one to open it. ` : `${plural(tasks.length, 'task')}. `) + 'The orange line is the measured critical path.' +
      ([...open].some(k => seen.get(k) > mostOpen) ? ` Of a type that is open the first ${mostOpen} tasks stand alone.` : '');
    const flows = run.flows > 1 ? [choice('of', [[-1, 'all workflows'], ...run.workflows.map((x, i) => [i, short(x.name, 60)]).filter(([i]) => run.workflows[i].state !== 'continued').slice(0, 500)], v => { only = +v; open.clear(); draw(); })] : [];
    const close = el('button', {type: 'button', on: {click: () => { open.clear(); draw(); }}}, 'close all types');
    tools.replaceChildren(...flows, ...(open.size ? [close] : []));
    if (flows.length) tools.querySelector('select').value = only;
    key.replaceChildren(legend([...[...new Set(tasks.map(run.stateOf))].filter(s => outcomes[s]).map(s => [s, outcomes[s]]), ...[...seen.keys()].slice(0, 30).map(k => [run.kinds[k], run.hue(k)])]));
  }
  let drawn = '';
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
  return {node: el('div', {class: 'dag'}, tools, note, frame, key), refresh() {
    const now = `${run.names.length} ${run.task.state.join('')} ${[...run.critical].join(' ')}`;
    if (now !== drawn) { drawn = now; draw(); }
  }};
}

// The graph of dependencies in layers; above some hundred tasks one node stands for all tasks of a type.
import {el, svg, seconds, colour, short} from './text.js';

const most = 250;

export function dag(run) {
  const [child, parent] = run.edges, tasks = run.task.kind.length, grouped = tasks > most;
  const of = t => grouped ? run.task.kind[t] : t;
  const nodes = new Map(), edges = new Map();
  const critical = new Set([...run.critical].map(i => run.attempt.task[i]));
  for (let t = 0; t < tasks; t++) {
    const id = of(t);
    if (!nodes.has(id)) nodes.set(id, {id, kind: run.task.kind[t], count: 0, layer: 0, parents: new Set(), critical: false, name: grouped ? run.kinds[id] : run.names[t]});
    const n = nodes.get(id);
    n.count++;
    n.critical ||= critical.has(t);
  }
  for (let e = 0; e < child.length; e++) {
    const p = of(parent[e]), c = of(child[e]);
    if (p === c) continue;
    const key = p + ' ' + c;
    edges.set(key, {p, c, count: (edges.get(key)?.count || 0) + 1, critical: edges.get(key)?.critical || critical.has(parent[e]) && critical.has(child[e])});
    nodes.get(c).parents.add(p);
  }
  // Longest paths; types may depend on each other in circles, so that layers are bounded.
  for (let again = true, round = 0; again && round <= nodes.size; round++) {
    again = false;
    for (const {p, c} of edges.values()) {
      const l = nodes.get(p).layer + 1;
      if (l > nodes.get(c).layer && l < nodes.size) { nodes.get(c).layer = l; again = true; }
    }
  }
  const layers = [];
  for (const n of nodes.values()) (layers[n.layer] ||= []).push(n);
  const rows = layers.filter(Boolean), width = Math.max(600, ...rows.map(r => r.length * (grouped ? 130 : 46)));
  rows.forEach((r, y) => {
    const middle = n => n.parents.size ? [...n.parents].reduce((s, p) => s + (nodes.get(p).x || 0), 0) / n.parents.size : 0;
    if (y > 0) r.sort((m, n) => middle(m) - middle(n) || m.id - n.id);
    r.forEach((n, i) => { n.x = width * (i + 0.5) / r.length; n.y = 24 + y * 62; });
  });
  const g = svg('svg', {viewBox: `0 0 ${width} ${rows.length * 62}`, role: 'img', 'aria-label': `Graph of ${tasks} tasks and ${child.length} dependencies in ${rows.length} layers`});
  for (const {p, c, critical: hot} of edges.values()) {
    const m = nodes.get(p), n = nodes.get(c), bend = (m.y + n.y) / 2;
    g.append(svg('path', {d: `M${m.x} ${m.y + 10}C${m.x} ${bend} ${n.x} ${bend} ${n.x} ${n.y - 10}`, fill: 'none', stroke: hot ? '#c2410c' : '#8a949e', 'stroke-width': hot ? 2 : 0.8, 'stroke-opacity': hot ? 1 : 0.6}));
  }
  for (const n of nodes.values()) {
    const w = grouped ? 118 : 38;
    g.append(svg('g', {}, svg('title', {}, `${n.name}${grouped ? `: ${n.count} tasks` : ' (' + run.kinds[n.kind] + ')'}`),
      svg('rect', {x: n.x - w / 2, y: n.y - 11, width: w, height: 22, rx: 5, fill: colour(n.kind), stroke: n.critical ? '#c2410c' : 'none', 'stroke-width': 3}),
      svg('text', {x: n.x, y: n.y + 4, 'text-anchor': 'middle', 'font-size': grouped ? 11 : 9, fill: '#fff'}, short(grouped ? n.name : run.kinds[n.kind], grouped ? 14 : 6) + (grouped ? ` ×${n.count}` : ''))));
  }
  return el('section', {class: 'dag', 'aria-label': 'Dependencies'}, el('h2', {}, 'Dependencies'),
    el('p', {class: 'note'}, (grouped ? `${tasks} tasks in ${nodes.size} types. ` : `${tasks} tasks. `) + 'What is on the critical path has a frame.'),
    el('div', {class: 'scroll', tabindex: 0, style: {'max-height': '560px'}}, el('div', {class: 'chart', style: {'min-width': Math.min(width, 3000) + 'px'}}, g)));
}

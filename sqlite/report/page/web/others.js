// The same run under other policies, and several runs, as small timelines on one axis.
import {el, seconds, ticks, clock, ink, fit, percent, plural, redraws, short, colour} from './text.js';
import {outcomeOf} from './answer.js';

const thin = 16;

// small draws a timeline: bars are [lane, from, to, colour, least width in pixels], in units.
function small(lanes, bars, end, scale, label) {
  const canvas = el('canvas', {role: 'img', 'aria-label': label}), each = Math.max(1, Math.min(thin, 96 / Math.max(1, lanes())));
  const draw = () => {
    const tall = Math.max(14, lanes() * each), [x, width] = fit(canvas, tall + 20), px = t => t / Math.max(1e-9, end()) * (width - 30);
    x.strokeStyle = ink('line'); x.fillStyle = ink('soft'); x.textAlign = 'center';
    const write = clock(end() * scale());
    for (const t of ticks(0, end() * scale(), width / 110)) {
      const p = Math.round(px(t / scale())) + 0.5;
      x.beginPath(); x.moveTo(p, 0); x.lineTo(p, tall); x.stroke();
      x.fillText(write(t), Math.max(14, p), tall + 15);
    }
    for (const [lane, from, to, fill, least = 0.6] of bars()) { x.fillStyle = fill; x.fillRect(px(from), lane * each, Math.max(least, px(to) - px(from)), Math.max(1, each - (each > 3 ? 1.5 : 0))); }
  };
  redraws(draw);
  return {canvas, draw};
}

const lanesOf = run => run.nodes.reduce((n, x) => n + Math.max(1, x.lanes), 0);

function* barsOf(run) {
  const first = [];
  let row = 0;
  for (const n of run.nodes) { first.push(row); row += Math.max(1, n.lanes); }
  const last = new Float64Array(row).fill(-1), pixel = Math.max(1, run.end) / 1600;
  for (let i = 0; i < run.n; i++) {
    const node = run.attempt.node[i];
    if (node < 0) continue;
    const lane = first[node] + run.attempt.lane[i];
    if (run.stop[i] < last[lane] + pixel / 2 && !run.fails(i)) continue;
    last[lane] = run.stop[i];
    yield [lane, run.attempt.queued[i] - run.arrival, run.stop[i] - run.arrival, run.tint(i), run.fails(i) ? 3 : 0.6];
  }
}

export const held = run => {
  let sum = 0, there = 0;
  for (let i = 0; i < run.n; i++) if (run.attempt.node[i] >= 0) sum += run.attempt.cores[i] * (run.stop[i] - run.attempt.queued[i]);
  for (const n of run.nodes) there += n.millicores * (run.makespan ?? run.end - run.arrival);
  return there ? sum / there : 0;
};

function lateOf(run) {
  const due = run.workflows.filter(w => w.due !== null), late = due.filter(w => w.ended !== null && w.ended > w.due);
  return {due: due.length, late: late.length, lateness: late.length ? late.reduce((m, w) => m + w.ended - w.due, 0) / late.length : 0};
}

const tardy = (o, s) => o.due ? `${o.late} of ${o.due} late` + (o.late ? `, by ${s(o.lateness)} on average` : '') : '';

export function others(run) {
  const node = el('div', {class: 'others'});
  return {node, refresh() {
    const o = run.others;
    if (!o || !o.policies.length) { node.replaceChildren(el('p', {class: 'note'}, o && o.note || 'Other policies were not simulated for this page.')); return; }
    const s = u => seconds(run.secs(u)), took = run.makespan ?? run.end - run.arrival, end = Math.max(took, ...o.policies.map(p => p.makespan)), drawn = [];
    const row = (title, note, facts, t) => { if (t) drawn.push(t); return el('div', {class: 'other'}, el('div', {}, el('b', {}, title), el('span', {class: 'note'}, note), ...facts.filter(Boolean).map(f => el('span', {}, f))), t ? t.canvas : el('p', {class: 'bad'}, facts.error || '')); };
    const rows = [row(run.policy, 'as it was', [s(took), tardy(lateOf(run), s), `${percent(held(run))} of the cores held`], small(() => lanesOf(run), () => barsOf(run), () => end, () => run.scale, `The run with ${run.policy}: ${s(took)}`))];
    const base = o.policies.find(p => p.own && !p.error);
    for (const p of o.policies) {
      if (p.error) { rows.push(el('div', {class: 'other'}, el('div', {}, el('b', {}, p.policy), el('span', {class: 'note'}, p.title || '')), el('p', {class: 'note'}, p.error))); continue; }
      const gain = base && !p.own && base.makespan ? (p.makespan - base.makespan) / base.makespan : 0;
      const bars = () => Array.from(p.lane, (lane, k) => [lane, p.from[k], p.from[k] + p.length[k], run.byFlow ? colour(p.workflow[k]) : run.hue(p.kind[k])]);
      rows.push(row(p.policy, p.own ? 'the same policy, replayed' : p.title || '', [s(p.makespan) + (gain ? ` (${gain > 0 ? '+' : '−'}${percent(Math.abs(gain))})` : ''), tardy(p, s), `${percent(p.utilisation)} of the cores held`], small(() => p.lanes, bars, () => end, () => run.scale, `The run with ${p.policy}: ${s(p.makespan)}`)));
    }
    node.replaceChildren(el('p', {class: 'note'}, 'Each policy is simulated with the arrivals, container starts and run times that were measured in this run (gantry simulate --replay). Percentages compare with the replay of the own policy.' + (o.note ? ' ' + o.note : '')), ...rows);
    drawn.forEach(t => t.draw());
  }};
}

// compare puts several runs into one table, with their timelines on one axis.
export function compare(page) {
  const node = el('div', {class: 'others'});
  return {node, refresh() {
    const drawn = [], longest = () => Math.max(...page.runs.map(r => r.secs(r.makespan ?? r.end - r.arrival)), 1e-9);
    node.replaceChildren(...page.runs.map(r => {
      const s = u => seconds(r.secs(u)), took = r.makespan ?? r.end - r.arrival, t = small(() => lanesOf(r), () => barsOf(r), () => longest() / r.scale, () => r.scale, `${r.name}: ${s(took)}`);
      drawn.push(t);
      return el('div', {class: 'other'}, el('div', {}, el('b', {}, short(r.name, 40)), el('span', {class: 'note'}, `${r.policy} on ${r.runtime}, ${outcomeOf(r)}`), el('span', {}, `${s(took)}, ${plural(r.names.length, 'task')}`),
        el('span', {}, tardy(lateOf(r), s)), el('span', {}, `${percent(held(r))} of the cores held`)), t.canvas);
    }));
    drawn.forEach(t => t.draw());
  }};
}

// Workflows, their deadlines, and tenants.
import {el, seconds, colour, legend, ink, percent, table, box, short, plural} from './text.js';
import {chart, line} from './chart.js';

const spans = 300;

export function deadlines(run, page) {
  const node = el('div'), late = '#c25450', good = '#4f9d69';
  let judged = [], tenants = [], shares = [];
  const lateness = chart(200, () => {
    if (!judged.length) return null;
    const values = judged.map(w => run.secs(w.ended - w.due)), low = Math.min(0, ...values), high = Math.max(0, ...values), edge = (high - low) * 0.06 || 1;
    return {x: [run.secs(run.begin), run.secs(run.end)], y: [low - edge, high + edge], value: seconds, label: `Lateness of ${plural(judged.length, 'workflow')} by arrival: from ${seconds(low)} to ${seconds(high)}`};
  }, (x, f) => {
    line(x, f, [[f.x[0], 0], [f.x[1], 0]], ink('soft'), 1.4);
    for (const w of judged) {
      const v = run.secs(w.ended - w.due), px = f.px(run.secs(w.arrived));
      x.fillStyle = x.strokeStyle = v > 0 ? late : good;
      x.globalAlpha = 0.75;
      x.beginPath(); x.moveTo(px, f.py(0)); x.lineTo(px, f.py(v)); x.stroke();
      x.beginPath(); x.arc(px, f.py(v), 3, 0, 7); x.fill();
    }
    x.globalAlpha = 1;
  });
  const dominant = chart(200, () => {
    if (tenants.length < 2) return null;
    const most = Math.max(0.05, ...shares.map(s => s.reduce((m, v) => Math.max(m, v), 0)));
    return {x: [run.secs(run.begin), run.secs(run.end)], y: [0, Math.min(1.05, most * 1.08)], value: percent, label: 'Dominant shares of ' + tenants.join(', ') + ' over time'};
  }, (x, f) => shares.forEach((s, k) => line(x, f, [...s].map((v, i) => [f.x[0] + (i + 0.5) / spans * (f.x[1] - f.x[0]), v]), colour(k), 1.8)));
  const one = el('figure', {}, el('figcaption', {}, 'Lateness by arrival: above the line a workflow ended after its deadline, below it before.'), lateness.canvas, legend([['late', late], ['in time', good]]));
  const key = el('div'), two = el('figure', {}, el('figcaption', {}, 'Dominant share of each tenant over time: the largest of its shares of cores, memory and disk of all nodes.'), dominant.canvas, key);
  const list = el('div'), counted = el('p'), of = el('div');
  node.append(counted, one, two, of, list);

  function shareOf() {
    const total = {cores: run.nodes.reduce((s, n) => s + n.millicores, 0), memory: run.nodes.some(n => n.memory === null) ? 0 : run.nodes.reduce((s, n) => s + n.memory / 1000, 0),
      disk: run.nodes.some(n => n.disk === null) ? 0 : run.nodes.reduce((s, n) => s + n.disk / 1000, 0)};
    const width = Math.max(1, run.end - run.begin) / spans, held = tenants.map(() => ({cores: new Float64Array(spans), memory: new Float64Array(spans), disk: new Float64Array(spans)}));
    const at = run.workflows.map(w => tenants.indexOf(w.tenant || '(none)'));
    for (let i = 0; i < run.n; i++) {
      if (run.attempt.node[i] < 0) continue;
      const own = held[at[run.task.workflow[run.attempt.task[i]]]], s = (run.attempt.queued[i] - run.begin) / width, e = (run.stop[i] - run.begin) / width;
      for (let k = Math.max(0, Math.floor(s)); k <= e && k < spans; k++) {
        const part = Math.max(0, Math.min(e, k + 1) - Math.max(s, k));
        for (const d of ['cores', 'memory', 'disk']) own[d][k] += part * run.attempt[d][i];
      }
    }
    return held.map(h => Float64Array.from({length: spans}, (_, k) => Math.max(...['cores', 'memory', 'disk'].map(d => total[d] ? h[d][k] / total[d] : 0))));
  }

  return {node, empty: () => run.flows < 2 && !run.workflows.some(w => w.due !== null), refresh() {
    judged = run.workflows.filter(w => w.due !== null && w.ended !== null);
    const due = run.workflows.filter(w => w.due !== null), tardy = judged.filter(w => w.ended > w.due), s = v => v === null || v === undefined ? '–' : seconds(run.secs(v));
    counted.textContent = due.length ? `${tardy.length} of ${plural(due.length, 'workflow')} with a deadline ended late` + (tardy.length ? `, on average by ${s(tardy.reduce((m, w) => m + w.ended - w.due, 0) / tardy.length)}.` : '.') : '';
    tenants = [...new Set(run.workflows.map(w => w.tenant || '(none)'))].slice(0, 12);
    one.hidden = !judged.length;
    two.hidden = tenants.length < 2;
    lateness.draw();
    if (tenants.length > 1) {
      shares = shareOf();
      dominant.draw();
      key.replaceChildren(legend(tenants.map((t, k) => [t, colour(k)])));
      of.replaceChildren(box('Tenants', 320, table([['tenant'], ['workflows', 1], ['tasks', 1], ['mean dominant share', 1], ['late', 1]], tenants.map((t, k) => {
        const own = run.workflows.filter(w => (w.tenant || '(none)') === t);
        return [t, String(own.length), String(own.reduce((m, w) => m + w.tasks, 0)), percent(shares[k].reduce((m, v) => m + v, 0) / spans), `${own.filter(w => w.due !== null && w.ended !== null && w.ended > w.due).length} of ${own.filter(w => w.due !== null).length}`];
      }))));
    } else of.replaceChildren();
    const rows = run.workflows.slice(0, 2000).map(w => [short(w.name, 80), w.tenant || '', w.class, w.state, String(w.tasks), s(w.arrived), s(w.ended), s(w.due), w.due !== null && w.ended !== null ? s(w.ended - w.due) : '–']);
    list.replaceChildren(box('Workflows', 360, table([['workflow'], ['tenant'], ['class'], ['state'], ['tasks', 1], ['arrived', 1], ['ended', 1], ['due', 1], ['lateness', 1]], rows)),
      run.workflows.length > 2000 ? el('p', {class: 'note'}, `The first 2000 of ${run.workflows.length} workflows.`) : '');
  }};
}

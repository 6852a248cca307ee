// What the nodes had to do over time, and why tasks waited.
import {el, seconds, bytes, colour, legend, ticks, ink, fit, percent} from './text.js';

const spans = 400;

// sums adds what each attempt has, over spans of time: amount(i) while it was on its node.
function sums(run, node, from, amount) {
  const out = new Float64Array(spans), width = Math.max(run.end, 1) / spans, a = run.attempt;
  for (let i = 0; i < run.n; i++) {
    if (node >= 0 && a.node[i] !== node) continue;
    const v = amount(i), s = from(i) / width, e = run.stop[i] / width;
    if (!v || e <= s) continue;
    for (let k = Math.floor(s); k <= e && k < spans; k++) out[k] += v * Math.max(0, Math.min(e, k + 1) - Math.max(s, k));
  }
  return out;
}

function area(canvas, run, height, most, series, label) {
  const [x, width] = fit(canvas, height + 20), left = 70, w = width - left;
  x.clearRect(0, 0, width, height + 20);
  const base = new Float64Array(spans);
  for (const s of series) {
    x.fillStyle = s.colour;
    x.beginPath();
    for (let k = 0; k < spans; k++) x.lineTo(left + k * w / spans, height - height * Math.min(1.02, (base[k] + s.values[k]) / most));
    for (let k = spans - 1; k >= 0; k--) x.lineTo(left + k * w / spans, height - height * Math.min(1.02, base[k] / most));
    x.fill();
    if (s.stacked) for (let k = 0; k < spans; k++) base[k] += s.values[k];
  }
  x.strokeStyle = ink('line');
  x.fillStyle = ink('soft');
  for (const t of ticks(0, run.secs(run.end), width / 120)) {
    const px = left + t / run.secs(Math.max(run.end, 1)) * w;
    x.beginPath(); x.moveTo(px, 0); x.lineTo(px, height); x.stroke();
    x.fillText(seconds(t), px + 2, height + 14);
  }
  x.fillText(label(most), 4, 12);
  x.fillText(label(0), 4, height);
}

export function utilisation(run) {
  const a = run.attempt, out = el('section', {'aria-label': 'Utilisation'}, el('h2', {}, 'Utilisation'));
  const pick = el('select', {'aria-label': 'Node', on: {change: () => draw()}}, el('option', {value: -1}, 'all nodes'), ...run.nodes.map((n, i) => el('option', {value: i}, n.name)));
  const cores = el('canvas', {role: 'img'}), memory = el('canvas', {role: 'img'});
  function draw() {
    const node = +pick.value, nodes = node < 0 ? run.nodes : [run.nodes[node]];
    const capacity = nodes.reduce((s, n) => s + n.millicores / 1000, 0), unlimited = nodes.some(n => n.memory === null);
    const held = sums(run, node, i => a.queued[i], i => a.cores[i] / 1000);
    const used = sums(run, node, i => run.start[i], i => run.knows(i, 'cpu') && a.run[i] > 0 ? a.cpu[i] / a.run[i] : 0);
    const mean = v => v.reduce((s, x) => s + x, 0) / spans;
    cores.setAttribute('aria-label', `Cores: ${capacity} there, ${mean(held).toFixed(2)} held and ${mean(used).toFixed(2)} used on average`);
    area(cores, run, 130, Math.max(capacity, 0.001), [{values: held, colour: '#9fbfdd'}, {values: used, colour: '#3b76af'}], v => +v.toFixed(2) + ' cores');
    const heldBytes = sums(run, node, i => a.queued[i], i => a.memory[i] * 1000), peaks = sums(run, node, i => run.start[i], i => run.knows(i, 'memory') ? a.peak[i] * 1000 : 0);
    const most = unlimited ? Math.max(1, ...heldBytes) : nodes.reduce((s, n) => s + n.memory, 0);
    memory.setAttribute('aria-label', `Memory: ${unlimited ? 'no limit' : bytes(most)}, ${bytes(mean(heldBytes))} held on average`);
    area(memory, run, 90, most, [{values: heldBytes, colour: '#bcd9b9'}, {values: peaks, colour: '#4e9a5a'}], bytes);
    note.textContent = capacity ? `Cores: ${percent(mean(held) / capacity)} held, ${percent(mean(used) / capacity)} used.` : '';
  }
  const note = el('p', {class: 'note'});
  out.append(el('div', {class: 'tools'}, pick), note, el('figure', {}, cores, legend([['cores held by tasks', '#9fbfdd'], ['CPU time used (mean of each attempt)', '#3b76af']])),
    el('figure', {}, memory, legend([['memory held', '#bcd9b9'], ['peak of each attempt', '#4e9a5a']])));
  addEventListener('resize', draw);
  return {draw, node: out};
}

export function waiting(run) {
  const w = run.waits, out = el('section', {'aria-label': 'Why tasks waited'}, el('h2', {}, 'Why tasks waited'));
  if (!w.reasons || !w.reasons.length) {
    out.append(el('p', {class: 'note'}, 'No task that was ready had to wait.'));
    return {draw() {}, node: out};
  }
  const totals = w.tasks.map(t => t.reduce((s, x) => s + x, 0) * w.bin * run.scale);
  const canvas = el('canvas', {role: 'img', 'aria-label': 'Tasks waiting over time. In all: ' + w.reasons.map((r, i) => `${r} ${seconds(totals[i])}`).join(', ')});
  const draw = () => {
    const most = Math.max(1, ...Array.from({length: spans}, (_, k) => w.tasks.reduce((s, t) => s + t[k], 0)));
    area(canvas, run, 130, most, w.tasks.map((values, i) => ({values, colour: colour(i), stacked: true})), v => Math.round(v) + ' tasks');
  };
  out.append(el('figure', {}, canvas, legend(w.reasons.map((r, i) => [`${r} (${seconds(totals[i])} in all)`, colour(i)]))));
  addEventListener('resize', draw);
  return {draw, node: out};
}

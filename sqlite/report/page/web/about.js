// Warnings, and how the run was made.
import {el, bytes, seconds, plural, quote, when} from './text.js';

export function warnings(run) {
  const node = el('div');
  return {node, empty: () => !run.warnings.length && !run.without.length, refresh() {
    node.replaceChildren(el('ul', {}, ...run.warnings.map(w => el('li', {}, w.message + (w.count > 1 ? ` (${w.count} times)` : ''))), ...run.without.map(w => el('li', {}, w))));
  }};
}

const facts = list => el('dl', {}, ...list.filter(([, v]) => v !== undefined && v !== null && v !== '').flatMap(([k, v]) => [el('dt', {}, k), el('dd', {}, v)]));
const plain = v => typeof v === 'object' && v !== null ? JSON.stringify(v) : String(v);

export function about(run) {
  const node = el('div');
  return {node, refresh() {
    const command = (run.command || []).map((w, i) => quote(i === 0 ? w.split('/').pop() : w)).join(' '), h = run.host || {};
    const copy = navigator.clipboard ? el('button', {type: 'button', class: 'screen', on: {click: () => navigator.clipboard.writeText(command)}}, 'copy') : null;
    const cluster = run.settings?.cluster;
    const parts = [command && el('p', {}, run.settings?.serve ? 'The command of this server:' : 'The command that repeats this run:'), command && el('div', {class: 'command'}, el('pre', {tabindex: 0}, command), copy),
      facts([['policy', run.policy], ['runtime', run.runtime], ['started', when(run.started)], ['seed', run.seed], ['time scale', run.time_scale], ['size scale', run.size_scale], ['resumed', run.resumes ? plural(run.resumes, 'time') : 'never'], ['gantry', run.version]])];
    if (run.host) {
      parts.push(el('h3', {}, 'Host'), facts([['name', h.name], ['system', [h.system, h.release, h.architecture].filter(Boolean).join(' ')], ['processor', [h.model, h.cores && plural(h.cores, 'core'), h.mhz && `${h.mhz} MHz`].filter(Boolean).join(', ')],
        ['memory', h.memory_bytes && bytes(h.memory_bytes)]]));
    }
    if (run.settings) parts.push(el('h3', {}, 'Settings'), facts(Object.entries(run.settings).filter(([k]) => !['cluster', 'policy', 'seed', 'runtime', 'time_scale', 'size_scale'].includes(k)).map(([k, v]) => k.endsWith('_ns') ? [k.slice(0, -3).replaceAll('_', ' '), seconds(v / 1e9)] : [k.replaceAll('_', ' '), plain(v)])));
    const metrics = Object.entries(run.metrics).filter(([, v]) => v !== null);
    const raw = (title, value) => value && el('details', {}, el('summary', {}, title), el('pre', {tabindex: 0}, JSON.stringify(value, null, 2)));
    node.replaceChildren(...[...parts, raw('Cluster', cluster), raw('Metrics', metrics.length ? Object.fromEntries(metrics) : null)].filter(Boolean));
  }};
}

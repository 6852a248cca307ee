// Failures, warnings, and how the run was made.
import {el} from './text.js';

export function failures(run) {
  const out = el('section', {'aria-label': 'Failures and warnings'});
  if (run.failures.length) {
    out.append(el('h2', {}, 'Failures'), ...run.failures.map(f => el('div', {class: 'detail'}, el('b', {class: 'bad'}, `${f.task}: ${f.outcome}${f.exit > 0 ? ' ' + f.exit : ''}`),
      f.message ? el('p', {}, f.message) : null, el('p', {class: 'note'}, `gantry logs ${run.name} ${f.task}`))));
  }
  if (run.warnings.length) {
    out.append(el('h2', {}, 'Warnings'), el('ul', {}, ...run.warnings.map(w => el('li', {}, w.message + (w.count > 1 ? ` (${w.count} times)` : '')))));
  }
  return out;
}

const quote = word => /^[\w@%+=:,./-]+$/.test(word) ? word : "'" + word.replaceAll("'", "'\\''") + "'";

export function about(run) {
  const facts = [['command', (run.command || []).map(quote).join(' ')], ['policy', run.policy], ['runtime', run.runtime], ['started', run.started], ['seed', String(run.seed)],
    ['time scale', String(run.time_scale)], ['size scale', String(run.size_scale)], ['resumed', run.resumes ? `${run.resumes} times` : 'never'], ['gantry', run.version]];
  const out = el('section', {'aria-label': 'About this run'}, el('h2', {}, 'About this run'),
    el('dl', {}, ...facts.flatMap(([k, v]) => [el('dt', {}, k), el('dd', {}, el('code', {}, v))])));
  for (const [title, value] of [['Host', run.host], ['Settings', run.settings], ['Metrics', Object.keys(run.metrics).length ? run.metrics : null]]) {
    if (value) out.append(el('details', {}, el('summary', {}, title), el('pre', {}, JSON.stringify(value, null, 2))));
  }
  return out;
}

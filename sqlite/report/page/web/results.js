// What failed, and what came out.
import {el, bytes, seconds, plural, short, table, box, quote, outcomes} from './text.js';
import {states} from './data.js';

const most = 5; // failures that stand open

// blocked are the tasks below one that do not run.
function blocked(run, t) {
  const seen = new Set([t]), out = [], never = states[run.task.state[t]] === 'failed';
  for (const p of seen) for (const c of run.childrenOf.get(p) || []) {
    if (!seen.has(c) && (states[run.task.state[c]] === 'skipped' || never && states[run.task.state[c]] === 'waiting')) out.push(c);
    seen.add(c);
  }
  return out.sort((x, y) => x - y);
}

// again is how the run is continued; nothing for one that cannot be.
function again(run) {
  if (run.state === 'running' || !run.ran.some(x => x.command)) return null;
  if (run.settings?.serve) return el('p', {}, 'Correct it and submit it again. A server of ', el('code', {}, 'gantry serve --reuse'), ' does not compute its succeeded tasks again.');
  const from = new Set(run.workflows.map(w => w.source)), file = [...from][0], one = from.size === 1 && file !== '-' && run.command?.[1] !== 'map' && !run.command?.includes('--');
  return el('p', {}, one ? 'Correct the command and continue; what ended well stays: ' : 'Continue with fresh tries; input files are read again, and what ended well stays: ',
    el('code', {}, `gantry resume ${one ? `--with ${quote(file)} ` : ''}${run.name}`));
}

export function failures(run) {
  const node = el('div');
  const one = f => {
    const t = run.attempt.task[f.attempt], program = run.ran[t] || {}, tries = run.attempt.try[f.attempt], below = blocked(run, t);
    return el('div', {class: 'detail failure', style: {'--c': outcomes[f.outcome] || outcomes.failed}}, el('h3', {}, el('button', {type: 'button', class: 'link', on: {click: () => run.choose(f.attempt)}}, run.label(t)), ' ',
      el('span', {class: 'bad'}, `${f.outcome}${f.exit > 0 ? ' ' + f.exit : ''}`), el('span', {class: 'note'}, ` at try ${tries} on ${run.nodeName(f.attempt)}, after ${seconds(run.secs(run.attempt.run[f.attempt]))}`)),
    f.message && el('p', {}, f.message), program.command && el('pre', {tabindex: 0, 'aria-label': 'Its command'}, program.command),
    f.output.length > 0 && el('figure', {}, el('figcaption', {}, 'The last lines of its output'), el('pre', {tabindex: 0, 'aria-label': 'The last lines of its output'}, f.output.join('\n'))),
    below.length > 0 && el('p', {}, `It blocked ${plural(below.length, 'task')}: ${below.slice(0, 8).map(c => short(run.label(c), 60)).join(', ')}${below.length > 8 ? ` and ${below.length - 8} more` : ''}.`),
    el('p', {class: 'note'}, el('code', {}, `gantry logs --attempt ${tries} ${run.id} ${quote(f.task)}`)));
  };
  return {node, empty: () => !run.failures.length, refresh() {
    const last = f => states[run.task.state[run.attempt.task[f.attempt]]] === 'failed' && run.attemptsOf.get(run.attempt.task[f.attempt]).at(-1) === f.attempt;
    const final = run.failures.filter(last), tried = run.failures.filter(f => !last(f)), open = [...node.querySelectorAll('details')].map(d => d.open);
    const fold = (list, k, title) => list.length > 0 && el('details', {open: open[k]}, el('summary', {}, title), ...list.map(one));
    node.replaceChildren(...[...final.slice(0, most).map(one), final.length > 0 && again(run), fold(final.slice(most), 0, `${plural(final.length - most, 'more task')} failed`),
      fold(tried, final.length > most ? 1 : 0, `${plural(tried.length, 'attempt')} did not end well, and ${tried.length === 1 ? 'was' : 'were'} tried again`),
      run.failed > run.failures.length && el('p', {class: 'note'}, `These are ${run.failures.length} of ${plural(run.failed, 'attempt')} that did not end well.`)].filter(Boolean));
  }};
}

export function results(run) {
  const node = el('div');
  const link = (r, ...inner) => r.link ? el('a', {href: r.link}, ...inner) : el('span', {}, ...inner);
  return {node, empty: () => !run.results.length, refresh() {
    const flow = run.flows === 1, name = r => flow ? r.name.slice(r.name.indexOf('/') + 1) : r.name;
    node.replaceChildren(el('div', {class: 'thumbs'}, ...run.results.filter(r => r.thumb).map(r => el('figure', {}, link(r, el('img', {src: r.thumb, alt: name(r)})), el('figcaption', {}, name(r))))),
      box('Results', 360, table([['file'], ['size', 1]], run.results.map(r => [link(r, name(r)), bytes(r.bytes)]))), run.more > 0 ? el('p', {class: 'note'}, `and ${run.more} more`) : '');
  }};
}

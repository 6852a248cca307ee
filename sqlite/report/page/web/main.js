import {el, when} from './text.js';
import {embedded, unpack} from './data.js';
import {answer} from './answer.js';
import {timeline} from './timeline.js';
import {utilisation, waiting} from './load.js';
import {tasks} from './table.js';
import {types} from './types.js';
import {dag} from './dag.js';
import {estimates} from './estimates.js';
import {deadlines} from './deadlines.js';
import {others, compare} from './others.js';
import {warnings, about} from './about.js';
import {failures, results} from './results.js';
import {follow} from './live.js';

// The parts of the page, in their order: id, title, how to make it, whether it needs tasks, and whether it is one of those
// for researchers, which are folded.
const sections = [
  ['failures', 'What failed', failures], ['answer', 'Summary', answer], ['results', 'What came out', results], ['timeline', 'Timeline', timeline, true], ['tasks', 'Tasks', tasks, true],
  ['graph', 'Dependencies', dag, true], ['workflows', 'Workflows', deadlines, true], ['warnings', 'Warnings', warnings], ['about', 'About this run', about],
  ['utilisation', 'Utilisation', utilisation, true, true], ['waits', 'Why tasks waited', waiting, true, true], ['types', 'Task types', types, true, true],
  ['estimates', 'Estimates', estimates, true, true], ['policies', 'Other policies', others, true, true],
];

const root = document.getElementById('page');
let page = null, parts = [];

function heads() {
  const several = page.runs.length > 1, r = page.runs[0];
  document.getElementById('title').textContent = several ? `${page.runs.length} runs` : r.title;
  document.getElementById('subtitle').textContent = (several ? '' : `${r.policy} on ${r.runtime}, started ${when(r.started)}. `) + `Written ${when(page.written)}.`;
}

// axis gives several runs one axis of time.
function axis() {
  if (page.runs.length < 2) return;
  const begin = Math.min(...page.runs.map(r => r.secs(r.begin))), end = Math.max(...page.runs.map(r => r.secs(r.end)));
  for (const r of page.runs) r.view = {written: page.written, span: [begin / r.scale, end / r.scale]};
}

function build() {
  const several = page.runs.length > 1, nav = document.getElementById('parts');
  document.documentElement.classList.toggle('several', several);
  axis();
  parts = [];
  const made = [], more = [], fold = el('details', {id: 'more', on: {toggle: () => fold.open && refresh()}}, el('summary', {}, 'Scheduling: utilisation, waits, types, estimates, other policies'));
  const add = (id, title, list, folded) => {
    const section = el('section', {id, 'aria-labelledby': id + '-title'}, el('h2', {id: id + '-title'}, title), el('div', {class: 'runs'}, ...list.map(p => p.frame || p.node)));
    const link = el('a', {href: '#' + id}, title);
    (folded ? more : made).push(section);
    if (!folded) nav.append(link);
    parts.push({section, link, list, fold: folded && fold});
  };
  nav.replaceChildren();
  if (several) add('compare', 'Runs', [compare(page)]);
  for (const [id, title, make, needs, folded] of sections) {
    add(id, title, page.runs.map(run => {
      const p = make(run, several ? run.view : page), name = several ? el('h3', {class: 'of'}, `${run.name} (${run.policy})`) : null;
      return {...p, empty: () => needs && !run.names.length || p.empty && p.empty(), frame: el('div', {class: 'run'}, name, p.node)};
    }), folded);
  }
  fold.append(...more);
  nav.append(el('a', {href: '#more', on: {click: () => { fold.open = true; }}}, 'Scheduling'));
  root.replaceChildren(...made, fold);
}

function refresh() {
  heads();
  for (const {section, link, list, fold} of parts) {
    const shown = list.filter(p => !p.empty || !p.empty());
    section.hidden = link.hidden = !shown.length;
    for (const p of list) if (p.frame) p.frame.classList.toggle('nothing', !shown.includes(p));
    if (!fold || fold.open) for (const p of shown) p.refresh();
  }
  document.documentElement.dataset.updates = +(document.documentElement.dataset.updates || 0) + 1;
}

// show takes in data: the first makes the page, later ones change it in place, so that zoom, order and choice stay.
function show(fresh) {
  if (!page) {
    page = fresh;
    build();
  } else {
    page.written = fresh.written;
    page.runs.forEach((run, k) => assign(run, fresh.runs[k]));
  }
  refresh();
}

// assign moves what a run has to another, values that are made later included.
function assign(run, fresh) {
  const choose = run.choose;
  for (const [k, d] of Object.entries(Object.getOwnPropertyDescriptors(fresh))) Object.defineProperty(run, k, d);
  run.choose = choose;
}

async function main() {
  try {
    if (document.getElementById('data').textContent) show(await unpack(embedded()));
    else document.querySelector('header').append(follow(show, unpack, p => p.runs[0].state !== 'running'));
    root.removeAttribute('aria-busy');
    performance.mark('drawn');
    document.documentElement.dataset.ready = 'yes';
  } catch (e) {
    root.replaceChildren(el('p', {class: 'bad'}, `This page could not be shown: ${e.message}. It needs a browser with DecompressionStream, such as Chromium 80 or Firefox 113.`));
    root.removeAttribute('aria-busy');
    throw e;
  }
}
main();

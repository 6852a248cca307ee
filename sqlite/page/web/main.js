import {el} from './text.js';
import {load} from './data.js';
import {answer} from './answer.js';
import {timeline} from './timeline.js';
import {utilisation, waiting} from './load.js';
import {tasks, types} from './table.js';
import {dag} from './dag.js';
import {estimates, flows} from './estimates.js';
import {failures, about} from './about.js';

function show(run, several) {
  const select = {}, drawn = [timeline(run, select), utilisation(run), waiting(run), estimates(run)];
  const [line, use, waits, guess] = drawn;
  const parts = run.task.kind.length ? [line.node, use.node, waits.node, tasks(run, select), types(run), dag(run), guess.node, flows(run)] : [];
  const section = el('section', {class: several && 'run', id: 'run-' + run.name}, several ? el('h1', {}, `${run.name} (${run.policy})`) : null, answer(run), ...parts, failures(run), about(run));
  return {section, draw: () => { if (parts.length) drawn.forEach(d => d.draw()); }};
}

async function main() {
  const page = document.getElementById('page');
  try {
    const data = await load(), several = data.runs.length > 1;
    document.getElementById('title').textContent = several ? `${data.runs.length} runs` : data.runs[0].name;
    document.getElementById('subtitle').textContent = (several ? '' : `${data.runs[0].policy} on ${data.runs[0].runtime}, started ${data.runs[0].started}. `) + `Written ${data.written}.`;
    if (several) document.getElementById('runs').append(...data.runs.flatMap(r => [el('a', {href: '#run-' + r.name}, r.name), ' ']));
    const shown = data.runs.map(r => show(r, several));
    page.replaceChildren(...shown.map(s => s.section));
    shown.forEach(s => s.draw());
    page.removeAttribute('aria-busy');
    performance.mark('drawn');
    document.documentElement.dataset.ready = 'yes';
  } catch (e) {
    page.replaceChildren(el('p', {class: 'bad'}, `This page could not be shown: ${e.message}. It needs a browser with DecompressionStream, such as Chromium 80 or Firefox 113.`));
    page.removeAttribute('aria-busy');
    throw e;
  }
}
main();

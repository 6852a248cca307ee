// A live page: it hears from its server when there is more to see.
import {el} from './text.js';

// follow calls show with each version of the data, as read reads it, until one is over. It returns the line that says how
// fresh the page is.
export function follow(show, read, last) {
  const text = el('span', {role: 'status'}, 'connecting…');
  let paused = false, missed = false, over = false, busy = false;
  const pause = el('button', {type: 'button', 'aria-pressed': 'false', on: {click: () => {
    paused = !paused;
    pause.setAttribute('aria-pressed', String(paused));
    pause.textContent = paused ? 'continue' : 'pause';
    if (!paused && missed) update();
  }}}, 'pause');
  async function update() {
    if (paused || busy) { missed = true; return; }
    missed = false;
    busy = true;
    try {
      const answer = await fetch('data');
      if (!answer.ok) throw new Error(await answer.text());
      const page = await read(new Uint8Array(await answer.arrayBuffer()));
      show(page);
      const ended = last(page);
      text.textContent = ended ? 'The run has ended: this page is complete, and follows nothing any more.' : `Live, as of ${new Date(page.written).toLocaleTimeString()}.`;
      if (ended) finish();
    } catch (e) {
      if (!over) text.textContent = `The page could not be brought up to date: ${e.message}`;
    }
    busy = false;
    if (missed) update();
  }
  const events = new EventSource('events');
  function finish() { over = true; events.close(); pause.hidden = true; }
  events.addEventListener('update', update);
  events.addEventListener('failure', e => { text.textContent = `The log cannot be read: ${e.data}`; });
  events.addEventListener('over', () => { events.close(); pause.hidden = true; });
  events.onerror = () => { if (!over) text.textContent = 'The server does not answer: the run has ended, or gantry was stopped. The page shows what it heard last.'; };
  return el('p', {id: 'live'}, text, ' ', pause);
}

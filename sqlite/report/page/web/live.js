// A live page: its server answers when there is more to see.
import {el} from './text.js';

const after = ms => new Promise(done => setTimeout(done, ms));

// follow calls show with each version of the data, as read reads it, until one is the last. It returns the line that says
// how fresh the page is.
export function follow(show, read, last) {
  const text = el('span', {role: 'status'}, 'connecting…');
  let paused = false, goOn = () => {};
  const pause = el('button', {type: 'button', 'aria-pressed': 'false', on: {click: () => {
    paused = !paused;
    pause.setAttribute('aria-pressed', String(paused));
    pause.textContent = paused ? 'continue' : 'pause';
    if (!paused) goOn();
  }}}, 'pause');
  async function update() {
    for (let version = 0, over = false; !over;) {
      const answer = await fetch(`data?after=${version}`).catch(() => null);
      try {
        if (!answer || !answer.ok) {
          text.textContent = answer ? `The log cannot be read: ${await answer.text()}` : 'The server does not answer: the run has ended, or gantry was stopped. The page shows its last state.';
          await after(2000);
        } else if (answer.status !== 204) {
          const page = await read(new Uint8Array(await answer.arrayBuffer()));
          version = answer.headers.get('Version');
          while (paused) await new Promise(done => { goOn = done; });
          show(page);
          over = last(page);
          text.textContent = over ? 'The run has ended: this page is complete, and follows nothing any more.' : `Live, as of ${new Date(page.written).toLocaleTimeString()}.`;
        }
      } catch (e) {
        text.textContent = `The page could not be brought up to date: ${e.message}`;
        await after(2000);
      }
    }
    pause.hidden = true;
  }
  update();
  return el('p', {id: 'live'}, text, ' ', pause);
}

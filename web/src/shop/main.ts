// Starts the shop: words first, so that nothing is shown in the wrong language.
import { mount } from 'svelte';
import '../lib/renew';
import '../ui/theme.css';
import { startLanguage } from '../i18n/index.svelte';
import { measure } from '../lib/clock.svelte';
import { whoAmI } from '../lib/session.svelte';
import { foresee } from './early';
import { pageAt } from './routes';
import { loadWords } from './words.svelte';
import App from './App.svelte';

// Requested while the rest is still being loaded.
void whoAmI();
void measure();
const path = location.pathname;
foresee(path);
// Without `await`: files that share a chunk with this one would wait for it, and it for them.
void Promise.all([pageAt(path), startLanguage(loadWords)]).then(([Page]) => {
  mount(App, { target: document.getElementById('app') as HTMLElement, props: { first: { path, Page } } });
});

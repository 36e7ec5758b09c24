// The shop's beginning: words first, so that nothing is shown in the wrong language.
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

// Asked while the rest is still on its way.
void whoAmI();
void measure();
const path = location.pathname;
foresee(path);
// Not by waiting here: files that share one with this would wait for it, and it for them.
void Promise.all([pageAt(path), startLanguage(loadWords)]).then(([Page]) => {
  mount(App, { target: document.getElementById('app') as HTMLElement, props: { first: { path, Page } } });
});

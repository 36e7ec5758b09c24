// The shop's beginning: words first, so that nothing is shown in the wrong language.
import { mount } from 'svelte';
import '../lib/renew';
import '../ui/theme.css';
import { startLanguage } from '../i18n/index.svelte';
import { loadWords } from './words.svelte';
import App from './App.svelte';

await startLanguage(loadWords);
mount(App, { target: document.getElementById('app') as HTMLElement });

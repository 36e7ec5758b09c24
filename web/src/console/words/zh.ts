// The words of the console in Chinese.
import type { Words } from '../../i18n/types';
import type en from './en';

const zh: Words<typeof en> = { title: 'Penstock' };

export default zh;

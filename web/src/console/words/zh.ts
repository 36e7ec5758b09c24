// The words of the console in Chinese.
import type { Words } from '../../i18n/types';
import type en from './en';
import books from './zh/books';
import errors from './zh/errors';
import goods from './zh/goods';
import rehearse from './zh/rehearse';
import shell from './zh/shell';
import watch from './zh/watch';

const zh: Words<typeof en> = { ...shell, ...goods, ...watch, ...books, ...rehearse, errors };

export default zh;

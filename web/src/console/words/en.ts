// The words of the console in English.
import books from './en/books';
import errors from './en/errors';
import goods from './en/goods';
import rehearse from './en/rehearse';
import shell from './en/shell';
import watch from './en/watch';

export default { ...shell, ...goods, ...watch, ...books, ...rehearse, errors };

// The words of the console in English.
import errors from './en/errors';
import goods from './en/goods';
import shell from './en/shell';
import watch from './en/watch';

export default { ...shell, ...goods, ...watch, errors };

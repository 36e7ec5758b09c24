// The words of the console in English.
export default { title: 'Penstock' };

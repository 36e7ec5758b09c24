// The words of the shop in English.
export default { title: 'Penstock' };

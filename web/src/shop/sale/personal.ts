// What of a sale's page is for who is signed in: it comes in one piece, so that no step of a purchase waits for the network.
export { default as OrderStage } from '../orders/OrderStage.svelte';
export { browserWorld } from '../purchase/browser';
export { Purchase } from '../purchase/purchase.svelte';
export { default as Check } from './Check.svelte';
export { Mine } from './mine.svelte';
export { default as WaitingRoom } from './WaitingRoom.svelte';
export { default as Waitlist } from './Waitlist.svelte';

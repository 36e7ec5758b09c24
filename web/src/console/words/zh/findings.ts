// What an audit can find. The sale or the order is named beside it.
import type { UnitCounts } from '../../../api/schema';
import type { Findings } from '../../lib/audit';
import { causeInWords } from '../../lib/letters';
import causes from './causes';
import shell from './shell';

const n = (value: number) => value.toLocaleString('zh-CN');
const counts = ({ total, available, held, paid }: UnitCounts) =>
  `共 ${n(total)} 件（可售 ${n(available)}、待付款 ${n(held)}、已付款 ${n(paid)}）`;
const both = (held: number, paid: number) => `待付款 ${n(held)} 件、已付款 ${n(paid)} 件`;
// Two moments may differ by a millisecond.
const at = (millis: number | null | undefined) =>
  millis == null
    ? '从未'
    : new Date(millis).toLocaleString('zh-CN', {
        year: 'numeric',
        month: 'short',
        day: 'numeric',
        hour: '2-digit',
        minute: '2-digit',
        second: '2-digit',
        fractionalSecondDigits: 3,
      });
const sources = { ledger: '账本', records: '记录库', stock_log: '库存日志' };
const times = { created_at: '下单时间', pay_before: '付款期限', paid_at: '付款时间' };
const standings = { selling: '销售中', paused: '已暂停', closed: '已结束' };
const due = (isDue: boolean) => (isDue ? '须退款' : '无须退款');
const state = (name: string) => (shell.states as Record<string, string>)[name] ?? name;

const findings: Findings = {
  ledger_counts: (found) => `账本自身的件数对不上：${counts(found.counts)}。`,
  ledger_orders: (found) =>
    `账本记有${both(found.held, found.paid)}，但其中的订单合计为${both(found.orders_held, found.orders_paid)}。`,
  order_misplaced: (found) => `账本把它放在了第 ${found.number} 号的位置。`,
  same_key: () => '它是同一买家用同一幂等键得到的第二笔订单。',
  oversold: (found) => `按${sources[found.by]}里的订单，超卖了 ${n(found.units)} 件。`,
  over_limit: (found) => `买家 ${found.buyer} 有 ${n(found.units)} 件，但限购 ${n(found.limit)} 件。`,
  settled_too_far: (found) =>
    `记录库已入账到第 ${n(found.settled)} 条决定，但账本只到第 ${n(found.ledger)} 条。`,
  decisions_missing: (found) => `第 ${n(found.first)} 至 ${n(found.last)} 条决定既未入账，也不在决定流中。`,
  dead_letter: (found) =>
    `第 ${n(found.decision)} 条决定成了死信 ${found.letter}，尚未入账。${causeInWords(causes, found.cause).says}`,
  letters_of_unknown_stream: (found) =>
    `账本里没有 ${found.stream}，它的 ${n(found.letters)} 条决定无法入账。`,
  sale_not_in_records: () => '账本正在销售它，但记录库里没有。',
  sale_not_in_ledger: () => '它在记录库里已发布，但账本不知道它。',
  orders_not_in_ledger: (found) => `记录库里有它的 ${n(found.orders)} 笔订单，但账本不知道这场活动。`,
  movements_not_in_ledger: () => '库存日志里有它的变动，但账本不知道这场活动。',
  order_not_in_ledger: (found) => `它在${sources[found.by]}里，但账本不知道它。`,
  order_lost: () => '订单丢失：账本已接受它，但记录库里没有。',
  stock_row_missing: () => '记录库里没有它的库存行。',
  recorded_orders: (found) =>
    `记录库里的订单合计为${both(found.held, found.paid)}，但账本为${both(found.ledger_held, found.ledger_paid)}。`,
  stock_log: (found) => `库存日志合计为${counts(found.log)}，但账本为${counts(found.ledger)}。`,
  stock_row: (found) => `库存行为${counts(found.row)}，但账本为${counts(found.ledger)}。`,
  past_stock_row: (found) => `活动已结束，但库存行对不上：${counts(found.row)}。`,
  past_stock_log: (found) =>
    `活动已结束，库存日志合计为${counts(found.log)}，但库存行为${counts(found.row)}。`,
  past_orders: (found) =>
    `活动已结束，订单合计为${both(found.held, found.paid)}，但库存行为${counts(found.row)}。`,
  sale_standing: (found) =>
    `它在账本里是“${standings[found.ledger]}”，但库存行里是“${standings[found.row]}”。`,
  sale_terms: () => '库存行里的条款与账本不同。',
  order_state: (found) => `它在账本里是“${state(found.ledger)}”，但记录库里是“${state(found.records)}”。`,
  order_buyer: (found) => `它在账本里属于 ${found.ledger}，但记录库里属于 ${found.records}。`,
  order_quantity: (found) => `它在账本里是 ${n(found.ledger)} 件，但记录库里是 ${n(found.records)} 件。`,
  order_time: (found) =>
    `${times[found.of]}不同：账本为 ${at(found.ledger_millis)}，记录库为 ${at(found.records_millis)}。`,
  order_refund: (found) => `账本：${due(found.ledger_due)}；记录库：${due(found.records_due)}。`,
  order_key: () => '记录库里的幂等键与账本不同。',
  order_unreadable: () => '记录库里有一笔订单无法读取。',
  order_held_already: (found) => `第 ${n(found.decision)} 条决定要保留它，但记录库里已经有它。`,
  order_to_change_missing: (found) => `第 ${n(found.decision)} 条决定要改动它，但记录库里没有它。`,
  order_in_wrong_state: (found) =>
    `第 ${n(found.decision)} 条决定要求它是“${state(found.needed)}”，但记录库里是“${state(found.records)}”。`,
  held_twice: (found) => `它在库存日志里被保留了 ${n(found.times)} 次。`,
  order_movements: (found) =>
    `它在账本里是“${state(found.state)}”，共 ${n(found.units)} 件，但库存日志里是${both(found.held, found.paid)}。`,
  unknown_movement: (found) => `库存日志里有一种未知的变动：“${found.movement}”。`,
  no_order_number: (found) => `库存日志里的订单编号 ${found.number} 不成立。`,
  waiter_differs: ({ number, ledger, records }) =>
    `候补名单第 ${n(number)} 号，账本里是 ${ledger.buyer}，${n(ledger.units)} 件，自 ${at(ledger.since_millis)}；记录库里是 ${records.buyer}，${n(records.units)} 件，自 ${at(records.since_millis)}。`,
  waiter_not_in_records: (found) => `买家 ${found.buyer} 在账本的候补名单里，但不在记录库里。`,
  waiter_not_in_ledger: (found) => `买家 ${found.buyer} 在记录库的候补名单里，但不在账本里。`,
};

export default findings;

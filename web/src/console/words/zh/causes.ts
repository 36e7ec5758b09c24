// Why a decision can’t be settled, and what to do about it.
import type { Words } from '../../../i18n/types';
import type en from '../en/causes';

const mend = '请查看订单和对账结果，修复记录库后重试。';
const audit = '记录库可能被人改动过，或程序存在缺陷。请先对账，再重试。';

const causes: Words<typeof en> = {
  oversold: { says: '卖出的件数会超过记录库里的剩余。', todo: audit },
  over_limit: { says: '买家会超过限购。', todo: audit },
  not_held: { says: '已付款或退回的件数，在记录库里并未保留。', todo: audit },
  earlier_letter: { says: '同一订单有更早的决定也是死信。', todo: '请先重试那一条，再重试这一条。' },
  sale_missing: {
    says: '记录库里没有这场活动，可能是用旧备份恢复的。',
    todo: '请先把活动恢复到记录库，再重试。',
  },
  stock_missing: {
    says: '记录库里没有这场活动的库存，可能是用旧备份恢复的。',
    todo: '请先重试活动的发布，或把库存恢复到记录库，再重试这一条。',
  },
  stock_exists: { says: '记录库里已经有这场活动的库存。', todo: audit },
  order_missing: { says: '记录库里没有这笔订单。', todo: mend },
  order_exists: { says: '记录库里已经有这个编号的订单。', todo: mend },
  order_state: { says: '记录库里的订单状态与应有的不符，可能被他人改动过。', todo: mend },
  order_quantity: { says: '记录库里的订单件数与应有的不符，可能被他人改动过。', todo: mend },
  waiter_missing: {
    says: '买家不在记录库候补名单的这个位置上。',
    todo: '请先对账，修复记录库里的候补名单后重试。',
  },
  waiter_exists: {
    says: '买家已经在记录库的候补名单里。',
    todo: '请先对账，修复记录库里的候补名单后重试。',
  },
  damaged: { says: '记录库里有一行无法读取。', todo: '请修复这一行，再重试。' },
  database: {
    says: '数据库拒绝了它。',
    todo: '请看数据库给出的说明：可能是约束，或自设的触发器。排除原因后重试。',
  },
  unknown: { says: '服务器给出了以下原因。', todo: '请排除原因后重试。对账会指出差异。' },
};

export default causes;

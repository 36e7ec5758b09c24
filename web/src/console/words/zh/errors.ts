// What a merchant is told where it differs from what a buyer is told.
import type { Words } from '../../../i18n/types';
import type en from '../en/errors';

const zh: Words<typeof en> = {
  network: { says: '无法连接服务器。', todo: '您填写的内容不会丢失。请检查网络后重试。' },
  bad_credentials: { says: '手机号与密码不匹配。', todo: '请核对后重试。' },
  unauthorized: { says: '登录已失效。', todo: '请重新登录，填写的内容会保留。' },
  forbidden: { says: '此操作需要管理员权限。', todo: '请使用有权限的账号登录。' },
  sale_not_found: { says: '没有这场活动。', todo: '请在活动列表中查找。' },
  item_not_found: { says: '没有这件商品。', todo: '请在商品列表中查找。' },
  not_published: { says: '活动还是草稿。', todo: '请先发布。' },
  already_published: { says: '活动已被发布，条款不能再改。', todo: '请重新查看；仍可补货。' },
  closed: { says: '活动已永久结束。', todo: '可以以它为模板起草新活动。' },
  invalid_request: { says: '还有内容需要修改。', todo: '详见各字段的提示，填写的内容不会丢失。' },
  body_too_large: { says: '超过了服务器允许的大小。', todo: '请缩小后重试。' },
  unsupported_media_type: { says: '服务器不接受这种文件。', todo: '请使用 PNG、JPEG、WebP、AVIF 或 GIF。' },
  request_timeout: { says: '发送的内容太久没有到达。', todo: '请检查网络后重试。' },
  busy: { says: '服务器正忙。', todo: '请稍后重试。' },
  unavailable: {
    says: '系统的某个部分暂时无法访问。',
    todo: '已接受的订单是安全的。请在概览页查看节点状态后重试。',
  },
  internal: { says: '服务器出错了。', todo: '请重试；原因见服务器日志。' },
  dead_letter_stuck: { says: '仍然无法入账。', todo: '请先排除原因，再重试。' },
  dead_letter_not_found: { says: '没有这条死信。', todo: '可能已经入账，请刷新列表。' },
};

export default zh;

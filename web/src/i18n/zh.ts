// The words that shop and console share, in Chinese.
import errors from './errors.zh';
import type { Common } from './types';

const common: Common = {
  back: '返回',
  cancel: '取消',
  save: '保存',
  tryAgain: '重试',
  loading: '加载中……',
  more: '显示更多',
  retryIn: (time: string) => `${time}后可以重试。`,
  signIn: '登录',
  signOut: '退出登录',
  country: '国家或地区',
  phone: '手机号',
  phoneHint: '请带国家区号，例如 +86 138 0013 8000',
  password: '密码',
  days: (days: number) => `${days} 天`,
  skip: '跳到正文',
};

export default { common, errors };

"""Buys, pays and lists with the Python client that openapi-generator made.

Arguments: the server's address, a sale, a buyer's token, the admin token.
"""

import sys
import uuid

import shop

url, sale_id, buyer_token, admin_token = sys.argv[1:]


def client(token):
    return shop.ApiClient(shop.Configuration(host=url, access_token=token))


with client(buyer_token) as buyer, client(admin_token) as admin:
    sales, orders = shop.SalesApi(buyer), shop.OrdersApi(buyer)
    page = sales.list_sales(limit=10)
    assert isinstance(page.data[0], shop.Sale), page
    sale = sales.get_sale(sale_id)
    assert sale.state is shop.SaleState.OPEN and sale.server_time.tzinfo, sale

    wish = shop.OrderRequest(quantity=1)
    order = orders.place_order(sale_id, str(uuid.uuid4()), wish)
    assert order.state is shop.OrderState.HELD and order.total == sale.price, order
    paid = orders.pay_order(order.id)
    assert paid.state is shop.OrderState.PAID and paid.paid_at, paid
    mine = orders.list_orders()
    assert [one.id for one in mine.data] == [order.id] and isinstance(mine.data[0], shop.Order), mine

    try:
        orders.place_order(sale_id, str(uuid.uuid4()), wish)
        raise SystemExit("a second unit was sold to the same buyer")
    except shop.exceptions.ConflictException as refused:
        assert refused.data.code is shop.ProblemCode.LIMIT_REACHED, refused

    merchant = shop.AdminApi(admin)
    stats = merchant.sale_stats(sale_id)
    assert stats.total == stats.available + stats.held + stats.paid, stats
    for one in merchant.list_all_orders(sale=sale_id).data:
        assert isinstance(one, shop.AdminOrder) and one.buyer, one
    assert merchant.audit().ok

print(order.id)

"""Buys, pays and lists with the client that openapi-python-client made.

Arguments: the server's address, a sale, a buyer's token, the admin token.
"""

import sys
import uuid

from shop import AuthenticatedClient, models
from shop.api.admin import audit, list_all_orders
from shop.api.orders import list_orders, pay_order, place_order
from shop.api.sales import get_sale, list_sales

url, sale_id, buyer_token, admin_token = sys.argv[1:]
buyer = AuthenticatedClient(base_url=url, token=buyer_token)
admin = AuthenticatedClient(base_url=url, token=admin_token)

page = list_sales.sync(client=buyer, limit=10)
assert isinstance(page, models.SalePage) and isinstance(page.data[0], models.Sale), page
sale = get_sale.sync(sale_id, client=buyer)
assert isinstance(sale, models.Sale) and sale.state is models.SaleState.OPEN, sale


def place():
    return place_order.sync(
        sale_id, client=buyer, body=models.OrderRequest(quantity=1), idempotency_key=str(uuid.uuid4())
    )


order = place()
assert isinstance(order, models.Order) and order.state is models.OrderState.HELD, order
paid = pay_order.sync(order.id, client=buyer)
assert isinstance(paid, models.Order) and paid.state is models.OrderState.PAID, paid
mine = list_orders.sync(client=buyer)
assert isinstance(mine, models.OrderPage) and [one.id for one in mine.data] == [order.id], mine
refused = place()
assert isinstance(refused, models.Problem), refused
assert refused.code is models.ProblemCode.LIMIT_REACHED, refused
for one in list_all_orders.sync(client=admin, sale=sale_id).data:
    assert isinstance(one, models.AdminOrder) and one.buyer, one
report = audit.sync(client=admin)
assert isinstance(report, models.AuditReport) and report.ok, report

print(order.id)

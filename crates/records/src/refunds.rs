//! A payment for an order of a sale that the ledger has forgotten. The sale is closed and settled, so nothing
//! more is decided, and the money goes back; this records the refund.

use penstock_domain::{OrderState, Timestamp};

use crate::{OrderRow, Records, RecordsError, outbox::OrderPayload};

impl Records {
    /// Records that an expired order was paid for, and puts that into the outbox. Paying again adds nothing.
    pub async fn owe_refund(&self, row: &OrderRow, at: Timestamp) -> Result<(), RecordsError> {
        let OrderRow { order, unit_price, .. } = row;
        let payload = serde_json::to_string(&OrderPayload {
            order: order.id.to_string(),
            sale: order.id.sale.to_string(),
            buyer: order.buyer.as_str(),
            quantity: order.quantity,
            unit_price: unit_price.amount(),
            currency: unit_price.currency.as_str(),
            state: OrderState::Expired.as_str(),
            refund_due: true,
            at_millis: at.as_millis(),
        })
        .map_err(RecordsError::damaged)?;
        let mut transaction = self.begin().await?;
        let owe = sqlx::query(
            "UPDATE orders SET refund_due = 1 \
             WHERE sale_id = ? AND order_number = ? AND state = ? AND refund_due = 0",
        )
        .bind(order.id.sale.as_i64())
        .bind(i64::from(order.id.number))
        .bind(OrderState::Expired.as_str());
        if transaction.change(owe).await? == 1 {
            // No decision of the sale's stream says this, so it has a stream of its own.
            let insert = sqlx::query(
                "INSERT INTO outbox (stream, position, kind, payload, created_at) \
                 VALUES (?, 1, 'order.refund_due', ?, ?)",
            )
            .bind(format!("refund:{}", order.id))
            .bind(payload)
            .bind(at.as_millis());
            transaction.change(insert).await?;
        }
        transaction.commit().await?;
        Ok(())
    }
}

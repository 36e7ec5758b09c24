//! Who may try: the sold-out latch and limits. No I/O.

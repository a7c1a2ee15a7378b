"""Which layers may read titles before the query comes: what that costs, and what it saves.

layout ─▶ moved ─┬─▶ costs ─▶ choosing ─┐
                 ├─▶ titles             ├─▶ plan_offline
                 └─▶ speed              │
recipe ─▶ retrained ────────────────────┘
"""

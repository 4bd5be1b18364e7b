"""The simulator: scenarios played under policies on a virtual clock, and what came of them."""

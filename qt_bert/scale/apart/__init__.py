"""A partition that workers died of, scored in processes that may die; what dead processes leave."""

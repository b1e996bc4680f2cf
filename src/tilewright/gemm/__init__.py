"""The product op behind `tilewright.matmul`: request → plan → build → launch.

request.py  what is asked for, and where the operands lie: all that a plan depends on
epilogue.py what becomes of a sum on its way to memory, as parts that compose (part.py, chain.py);
            activations.py and formula.py have their functions, interval.py what fp32 makes of them
reference.py what a whole request must give, and between which values a kernel may end
family.py   what a kind of kernel tells the planner; kernels/ has them, .py and .cu side by side
plan.py     a list of launches (step.py) and a workspace, pure data; rank.py orders the legal ones,
            tune.py measures them
arrays.py   the arrays of every framework (frameworks.py, foreign.py, streams.py) as operands, whose
            form.py is all that planning may know; shapes.py has NumPy's rules, collapse.py makes
            one batch of many dimensions, links.py the chain, arrange.py the request of all that
run.py      a plan on an engine (targets.py); product.py holds it together; api.py the public names
"""

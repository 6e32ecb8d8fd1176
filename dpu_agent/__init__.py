"""The agent on the DPU: meters both ports of a link, numbers, chains and signs what it saw, and keeps it.

Read in this order: :mod:`dpu_agent.recorder` is what happens once a second; :mod:`dpu_agent.counters` says what a
counter source is; :mod:`dpu_agent.epochs` decides whether a counter went on; :mod:`dpu_agent.spool` and
:mod:`dpu_agent.state` keep frames and numbers over a crash; :mod:`dpu_agent.service` hands them to the controller.
"""

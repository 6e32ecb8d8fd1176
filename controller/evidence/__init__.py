"""Evidence that a stranger can check: envelopes, the tree, notes, checkpoints, proofs, cosignatures and the policy.

Pure: values in, values out; no clock, socket or file; the standard library, ``cryptography`` and ``protos.signing``
only (an import contract and a test hold it). Under 800 lines, so that a third party can read all of it in an hour.

One rule for all of it, said here once: what does not hold raises ``VerificationError``, nothing else is ever raised,
and nothing returns whether it holds. In reading order:

==============  ======================================================================================
``refusal``     the one error that ever leaves this package
``grammar``     strict base64, decimals, JSON and text: one spelling for every value
``envelope``    DSSE 1.0.2: who signed these bytes
``statement``   in-toto Statement v1: what the bytes say, about which subjects
``tree``        RFC 6962: nothing was removed, changed or put in between
``note``        C2SP signed-note v1.0.0: text with signature lines
``checkpoint``  C2SP tlog-checkpoint v1.0.0 and tlog-cosignature v1.0.1: the tree's size and root, and when who saw it
``policy``      whom the reader trusts
==============  ======================================================================================

In which order they are asked is in :mod:`controller.bundle_steps`, which bytes a leaf has in
:mod:`controller.journal_leaf`, and how a log makes its proofs in :mod:`controller.treeproof`.
"""

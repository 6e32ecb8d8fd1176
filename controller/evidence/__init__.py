"""Evidence that a stranger can check: envelopes, the tree, notes, checkpoints, proofs, cosignatures and the policy.

Pure: values in, values out; no clock, socket or file; the standard library, ``cryptography`` and ``protos.signing``
only (an import contract and a test hold it), so that a third party can read all of it in an hour. In reading order:

==============  ======================================================================================
``refusal``     the one error that ever leaves this package
``grammar``     strict base64, decimals, JSON and text: one spelling for every value
``envelope``    DSSE 1.0.2: who signed these bytes
``statement``   in-toto Statement v1: what the bytes say, about which subjects
``leaf``        the bytes that a journal entry is in the tree
``tree``        RFC 6962: nothing was removed, changed or put in between
``note``        C2SP signed-note v1.0.0: text with signature lines
``checkpoint``  C2SP tlog-checkpoint v1.0.0 and tlog-cosignature v1.0.1: the tree's size and root, and when who saw it
``policy``      whom the reader trusts
``bundle``      everything in one file, and the numbered steps by which it is checked
==============  ======================================================================================
"""

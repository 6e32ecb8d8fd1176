"""What a device's TPM says of the software it booted: challenges, and quotes that answer them."""

"""What an instruction means, at both levels: PTX and SASS."""

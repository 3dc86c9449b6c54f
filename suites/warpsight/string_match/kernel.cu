// Searches records of 64 bytes for a word, a thread a record: where it first begins, or -1. Lanes are a record apart, byte after byte,
// and leave the search at different places.
__global__ void string_match(const unsigned char* __restrict__ records, const unsigned char* __restrict__ word, int* __restrict__ first,
                             int count, int length) {
  const int size = 64;
  int record = blockIdx.x * blockDim.x + threadIdx.x;
  if (record >= count) return;
  const unsigned char* text = records + record * size;
  int found = -1;
  for (int start = 0; start + length <= size && found < 0; ++start) {
    int k = 0;
    while (k < length && text[start + k] == word[k]) ++k;
    if (k == length) found = start;
  }
  first[record] = found;
}

// Builds the lists of an inverted index: a thread goes through the words of its document and appends the document's number to the list
// of each word. Places in the lists are handed out by atomics; lists have been given their room beforehand.
__global__ void inverted_index(const int* __restrict__ starts, const int* __restrict__ words, const int* __restrict__ list_start,
                               int* __restrict__ used, int* __restrict__ lists, int documents) {
  int document = blockIdx.x * blockDim.x + threadIdx.x;
  if (document >= documents) return;
  int end = starts[document + 1];
  for (int at = starts[document]; at < end; ++at) {
    int word = words[at];
    int place = atomicAdd(&used[word], 1);
    lists[list_start[word] + place] = document;
  }
}

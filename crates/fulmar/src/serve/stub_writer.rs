use fulmar_flow::{Block, BlockCounts, BlockName, Fold, FoldError, StateBatch};
pub struct Stub;
impl Fold for Stub {
    fn name(&self) -> &'static str { "writer" }
    fn version(&self) -> u32 { 1 }
    fn fold(&mut self, block: &Block, _batch: &mut StateBatch) -> Result<BlockCounts, FoldError> {
        Ok(BlockCounts { stored: block.len(), ..BlockCounts::default() })
    }
    fn committed(&mut self, _name: &BlockName) {}
}

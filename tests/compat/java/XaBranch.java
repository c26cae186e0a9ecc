import java.nio.charset.StandardCharsets;
import javax.transaction.xa.Xid;

/** A branch by its name. */
final class XaBranch implements Xid {
    private final byte[] name;

    XaBranch(String name) {
        this.name = name.getBytes(StandardCharsets.UTF_8);
    }

    @Override
    public int getFormatId() {
        return 89;
    }

    @Override
    public byte[] getGlobalTransactionId() {
        return name;
    }

    @Override
    public byte[] getBranchQualifier() {
        return new byte[] {1};
    }
}
